-- The place of the counts of events. Other queries are in store/sqlstore.

-- name: OtherRolls :one
SELECT EXISTS (SELECT 1 FROM rollup_place WHERE id = 1 AND owner <> @owner::uuid AND lease_until > @now);

-- name: MoveRoll :execrows
UPDATE rollup_place SET position = @position, at = @at, owner = @owner::uuid, lease_until = @lease_until
WHERE id = 1 AND position = @was AND (owner IS NULL OR owner = @owner::uuid OR lease_until <= @now);
