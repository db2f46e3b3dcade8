package document

import (
	"context"
	"errors"
)

// A product that is dropped may be registered again under its ID. Its data before and
// after belong to two generations, each numbered by the [Version] of a registration. A
// write carries the number of the generation in which it began, and a drop ends all
// generations up to a number: a write that began in one of them is refused from then
// on, wherever it comes from and however late it is.

// ErrDropped reports a write of a generation of its product that was dropped. Nothing
// was written, and there is no point in repeating the call in the same generation.
var ErrDropped = errors.New("document: the product was dropped")

type generationsKey struct{}

// WithGenerations returns a context whose writes belong to these generations: the function
// returns the number of a product's, zero for a product that is never dropped. Engines may call
// it with locks held: it must return without delay, and call no store.
func WithGenerations(ctx context.Context, of func(productID string) Version) context.Context {
	return context.WithValue(ctx, generationsKey{}, of)
}

// Generation returns the number of the generation that a write with this context
// belongs to. Zero means the current one, whichever that is: the write is never refused.
// Engines ask once, when a call begins.
func Generation(ctx context.Context, productID string) Version {
	if of, ok := ctx.Value(generationsKey{}).(func(string) Version); ok {
		return of(productID)
	}
	return 0
}

// Ended reports whether a write's generation has ended, if all generations up to dropped
// have.
func Ended(generation, dropped Version) bool { return generation != 0 && generation <= dropped }
