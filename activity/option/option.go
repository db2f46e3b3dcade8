// Package option has the error that every constructor of this module returns for a wrong
// argument or option. A constructor reports all mistakes at once, joined:
//
//	_, err := liveactivity.New(&liveactivity.Options{MaxEvents: -1})
//	if mistake, ok := errors.AsType[*option.Error](err); ok {
//		fmt.Println(mistake.Option, mistake.Problem) // MaxEvents must not be negative
//	}
package option

// Error is one mistake in the arguments of a constructor.
type Error struct {
	Package string // such as "stream"
	Option  string // the argument or the field of the options, such as "MaxPending" or "Retention.TTL"
	Problem string // completes a sentence that begins with Option: "must not be negative"
}

func (e *Error) Error() string { return e.Package + ": " + e.Option + " " + e.Problem }
