// Package agent makes one person's context for an AI agent: where the person is, and
// their newest actions, as data and as a text to put into a prompt.
//
//	query := agent.Query{Email: "ada@example.com"}
//	c, err := service.Context(ctx, "acme", query)
//	prompt += c.Text
//	query.Cursor = c.Cursor // the next turn gets later arrivals only
//
// The text quotes everything that browsers sent, between markers and below a sentence
// that declares it as data, never an instruction.
package agent
