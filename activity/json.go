package activity

import "github.com/liveactivity/liveactivity/internal/jsontext"

// AppendJSON appends the batch's JSON, without escaping HTML characters. It does not allocate if dst has enough
// capacity. It fails if a time is not a finite number; it then returns nil, though it may have written to dst.
func (b *Batch) AppendJSON(dst []byte) ([]byte, error) { return jsontext.Append(dst, b) }
