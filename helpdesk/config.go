package helpdesk

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/internal/nearest"
	"github.com/liveactivity/liveactivity/internal/options"
)

// ConfigError is one mistake in a desk's configuration.
type ConfigError struct {
	Field   string // such as "access_token"; empty for the whole
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
// Its error joins all mistakes, each a *ConfigError: fields that are unknown, values
// that are null or of the wrong type, and empty ones of fields with the tag
// secret:"true", which most often come from a variable that was not set. Where v has
// a method Validate() error, its mistakes in the other fields are joined, too.
//
// Its own mistakes come first, in the order of the fields' names, and hold no value of the
// configuration. Names are compared in their exact case, unlike in encoding/json. After an error v
// is filled in part. DecodeConfig panics if v is no pointer to a struct.
func DecodeConfig(config json.RawMessage, v any) error {
	var given map[string]json.RawMessage
	if json.Unmarshal(config, &given) != nil {
		return &ConfigError{Problem: "must be an object"}
	}
	into := reflect.ValueOf(v).Elem()
	known := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(into.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = field
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, ok := known[name]
		switch {
		case !ok || name == "" || name == "-":
			wrong = append(wrong, &ConfigError{name, "is not a known field" +
				nearest.Hint(name, slices.Collect(maps.Keys(known)))})
		case string(given[name]) == "null":
			wrong = append(wrong, &ConfigError{name, "must not be null"})
		case field.Tag.Get("secret") == "true" && (string(given[name]) == `""` || string(given[name]) == "[]"):
			wrong = append(wrong, &ConfigError{name, "must not be empty"})
		default:
			if problem := decodeField(given[name], into.FieldByIndex(field.Index)); problem != "" {
				wrong = append(wrong, &ConfigError{name, problem})
			}
		}
	}
	if v, ok := v.(interface{ Validate() error }); ok {
		wrong = append(wrong, beside(wrong, v.Validate())...)
	}
	return errors.Join(wrong...)
}

// beside returns the mistakes that are joined in err, without those in fields that
// have one already.
func beside(known []error, err error) []error {
	return slices.DeleteFunc(options.Split(err), func(err error) bool {
		var mistake *ConfigError
		return errors.As(err, &mistake) && slices.ContainsFunc(known, func(err error) bool {
			var other *ConfigError
			return errors.As(err, &other) && other.Field == mistake.Field
		})
	})
}

// decodeField decodes a value, or returns the problem with it.
func decodeField(value json.RawMessage, field reflect.Value) (problem string) {
	err := json.Unmarshal(value, field.Addr().Interface())
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		kind, _, _ := strings.Cut(wrongType.Value, " ") // without the number itself
		return "must not be a JSON " + kind
	case err != nil:
		return "is not valid"
	}
	return ""
}
