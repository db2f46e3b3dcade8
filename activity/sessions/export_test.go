package sessions

// Bytes returns the memory of a product's sessions in bytes. Expired ones count until they are freed.
func (m *Memory) Bytes(productID string) int64 { return m.held.Bytes(productID) }
