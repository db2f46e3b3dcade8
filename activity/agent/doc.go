// Package agent is the context of one person that an AI agent is given: where the person
// is, and what they did, as data and as a text to put into a prompt.
//
//	query := agent.Query{Email: "ada@example.com"}
//	c, err := service.Context(ctx, "acme", query)
//	prompt += c.Text
//	query.Cursor = c.Cursor // the next turn is told what has arrived since
//
// The text quotes everything that browsers sent, between markers and below a sentence
// that says so: it is data to a model, never an instruction.
package agent
