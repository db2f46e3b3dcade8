package intake

// Fields are the places in an object that matter, each with the function that reads its value
// into an event. They do not change once an event has been read.
type Fields[E any] map[string]func(r *Reader, e *E)

// Read reads an object, and skips other values. Of a place that comes twice the last
// value counts.
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

// Traits are the properties of a person: the address and those that prove an identity.
func Traits[E any](email func(*E) *string, proof func(*E) *Proof) Fields[E] {
	f := Fields[E]{"email": func(r *Reader, e *E) { r.SetString(email(e), MaxText) }}
	return f.WithProof(proof)
}
