package helpdesk

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/strictjson"
)

// ConfigError is one mistake in a desk's configuration.
type ConfigError struct {
	Field   string // such as "access_token"; empty for the whole, a line and column for invalid JSON
	Problem string // completes a sentence that begins with the field
}

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// OpenWith turns a desk's constructor into the Open of a [Kind]: it decodes the configuration
// with [DecodeConfig] and passes it on. If the configuration has a mistake, the constructor is
// not called. The constructor's own error is returned unchanged.
func OpenWith[C any, D Desk](open func(C, *Options) (D, error)) func(json.RawMessage, *Options) (Desk, error) {
	return func(config json.RawMessage, opts *Options) (Desk, error) {
		var c C
		if err := DecodeConfig(config, &c); err != nil {
			return nil, err
		}
		desk, err := open(c, opts)
		if err != nil {
			return nil, err
		}
		return desk, nil
	}
}

// DecodeConfig decodes a desk's configuration into the struct that v points to. Its error joins
// all mistakes, each a *ConfigError: unknown and duplicate fields, null values and values of the
// wrong type. A field with the tag secret:"true" must not be empty, which most often means an
// unset variable, or have white space around it. If v has a method Validate() error, its mistakes
// in the other fields are joined as well.
//
// The decoder's own mistakes come first, in the order of the text, and never contain a value from
// the configuration. Names are case-sensitive, unlike in encoding/json. After an error v is partly
// filled. A type's UnmarshalJSON is called only if the JSON has another type than the Go value.
// DecodeConfig panics if v does not point to a struct.
func DecodeConfig(config json.RawMessage, v any) error {
	var d strictjson.Decoder
	d.Decode(config, v)
	var wrong []error
	for _, mistake := range d.Wrong {
		field, problem, _ := strings.Cut(mistake, ": ")
		wrong = append(wrong, &ConfigError{field, problem})
	}
	if v, ok := v.(interface{ Validate() error }); ok {
		for _, err := range options.Split(v.Validate()) {
			if err != nil && len(d.Wrong.News([]string{err.Error()})) > 0 {
				wrong = append(wrong, err)
			}
		}
	}
	return errors.Join(wrong...)
}
