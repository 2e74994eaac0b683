-- The place of the counts of events. Other queries are in store/sqlstore.

-- name: MoveRoll :execrows
UPDATE rollup_place SET position = @position, at = @at WHERE id = 1 AND position = @was;
