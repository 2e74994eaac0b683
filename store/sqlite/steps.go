package sqlite

import (
	"context"
	"fmt"
)

// named adds the name of the failed part to an error.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// with binds a statement to its parameters.
func with[P any](run func(context.Context, P) error, p P) func(context.Context) error {
	return func(ctx context.Context) error { return run(ctx, p) }
}

// inSequence runs steps until one fails.
func inSequence(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
