package activity

// QueryError describes the mistake in a query, in a sentence that begins with the name of
// the parameter and holds nothing of its value.
type QueryError struct{ Param, Problem string }

func (e *QueryError) Error() string { return e.Param + " " + e.Problem }
