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
	Field   string // such as "access_token"; empty for the whole, a line and column for text that is no JSON
	Problem string // completes a sentence that begins with the field
}

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// OpenWith returns the Open of a [Kind] from the constructor of a desk: it decodes the
// configuration with [DecodeConfig] and passes it on. The constructor is not called with one that
// has a mistake. Its own error is returned as it is.
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

// DecodeConfig decodes a desk's configuration into the struct that v points to.
// Its error joins all mistakes, each a *ConfigError: fields that are unknown or duplicates, values
// that are null or of the wrong type, and strings of fields with the tag secret:"true" that are
// empty, which most often come from a variable that was not set, or have white space around them.
// Where v has a method Validate() error, its mistakes in the other fields are joined, too.
//
// Its own mistakes come first, in the order of the text, and hold no value of the
// configuration. Names are compared in their exact case, unlike in encoding/json. After an error v
// is filled in part. A type's own UnmarshalJSON is asked only where the JSON is of another type
// than the Go value. DecodeConfig panics if v is no pointer to a struct.
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
