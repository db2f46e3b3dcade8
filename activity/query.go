package activity

// QueryError describes an invalid query. Its message begins with the name of the parameter and does
// not contain the parameter's value.
type QueryError struct{ Param, Problem string }

func (e *QueryError) Error() string { return e.Param + " " + e.Problem }
