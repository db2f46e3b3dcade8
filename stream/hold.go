package stream

import "context"

// hold keeps the entry that a consumer handed over with ctx unfinished after
// its handler has returned, until release is called: the consumer's cursor
// does not pass it. It does nothing with any other ctx, nor where the consumer
// keeps no cursor.
func hold(ctx context.Context) (release func()) {
	if e, ok := ctx.Value(holdKey{}).(interface{ hold() func() }); ok {
		return e.hold()
	}
	return func() {}
}

type holdKey struct{}
