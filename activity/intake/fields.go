package intake

// Fields maps the relevant keys of a JSON object to functions that read their values into an event.
// It must not be modified once it is in use.
type Fields[E any] map[string]func(r *Reader, e *E)

// Read reads an object and skips unknown keys. The last of repeated keys counts.
func (f Fields[E]) Read(r *Reader, e *E) {
	r.Object(func(key []byte) { f.Field(r, e, key) })
}

// Field reads the value of a key, or skips it.
func (f Fields[E]) Field(r *Reader, e *E, key []byte) {
	if read := f[string(key)]; read != nil {
		read(r, e)
		return
	}
	r.Skip()
}

// WithProof adds the properties that prove an identity, and returns f.
func (f Fields[E]) WithProof(proof func(*E) *Proof) Fields[E] {
	f["$user_hash"] = func(r *Reader, e *E) { r.SetString(&proof(e).UserHash, MaxProof) }
	f["$email_hash"] = func(r *Reader, e *E) { r.SetString(&proof(e).EmailHash, MaxProof) }
	f["$identity_token"] = func(r *Reader, e *E) { r.SetString(&proof(e).Token, MaxProof) }
	f["user_hash"], f["email_hash"] = f["$user_hash"], f["$email_hash"]
	return f
}

// Traits returns the fields of a person: the email address and the proofs of identity.
func Traits[E any](email func(*E) *string, proof func(*E) *Proof) Fields[E] {
	f := Fields[E]{"email": func(r *Reader, e *E) { r.SetString(email(e), MaxText) }}
	return f.WithProof(proof)
}
