package intake

import (
	"fmt"
	"reflect"
	"strings"
)

// Fields reads JSON objects into structs of type E, as the tags of their fields say:
//
//	UserID string `in:"userId,scalar"`
//
// A tag has the field's name in JSON, or several names separated by "|", and for a string one of the
// kinds. A field may also be a bool, another such struct, or a [Value]. Fields without a tag are left
// alone, and an embedded struct's fields count as the outer struct's. A value of the wrong type changes
// nothing, unknown names are skipped, and the last of repeated names counts.
type Fields[E any] struct{ of *object }

// Value is a field that reads itself. Read must read exactly the next value.
type Value interface{ Read(r *Reader) }

// Span is the position of the object that the struct was read from, if it embeds a Span; empty for
// none. See [Reader.Again].
type Span struct{ From, To int64 }

// kinds are the kinds of strings, with the functions that read them.
var kinds = map[string]func(r *Reader, s *string){
	"":       func(r *Reader, s *string) { r.SetString(s, MaxText) },
	"scalar": (*Reader).SetText, // a number or a boolean, too
	"url":    func(r *Reader, s *string) { r.SetString(s, MaxURL) },
	"token":  func(r *Reader, s *string) { r.SetString(s, MaxToken) },
	"proof":  func(r *Reader, s *string) { r.SetString(s, maxProof) },
}

// FieldsOf returns the fields of a type. It panics if a tag is wrong, or of a field that is not exported.
func FieldsOf[E any]() Fields[E] { return Fields[E]{objectOf(reflect.TypeFor[E]())} }

// Read reads an object.
func (f Fields[E]) Read(r *Reader, e *E) { f.of.read(r, reflect.ValueOf(e).Elem()) }

// Field reads the value of a key, or skips it.
func (f Fields[E]) Field(r *Reader, e *E, key []byte) { f.of.field(r, reflect.ValueOf(e).Elem(), key) }

// object reads a struct.
type object struct {
	fields map[string]field
	span   []int // the index of its Span; nil for none
}

// field reads a field of a struct.
type field struct {
	index []int
	read  func(r *Reader, v reflect.Value)
}

func objectOf(t reflect.Type) *object {
	o := &object{fields: map[string]field{}}
	for _, f := range reflect.VisibleFields(t) {
		if f.Type == reflect.TypeFor[Span]() {
			o.span = f.Index
		}
		names, kind, _ := strings.Cut(f.Tag.Get("in"), ",")
		for name := range strings.SplitSeq(names, "|") {
			if name != "" && !f.IsExported() {
				panic(fmt.Sprintf("intake: the field %s must be exported", f.Name))
			} else if name != "" {
				o.fields[name] = field{f.Index, readerOf(f.Type, kind)}
			}
		}
	}
	return o
}

// readerOf returns the function that reads a field of a type.
func readerOf(t reflect.Type, kind string) func(r *Reader, v reflect.Value) {
	read := kinds[kind]
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Value]()):
		return func(r *Reader, v reflect.Value) { v.Addr().Interface().(Value).Read(r) }
	case t.Kind() == reflect.Struct:
		return objectOf(t).read
	case t.Kind() == reflect.Bool:
		return func(r *Reader, v reflect.Value) { v.SetBool(r.Bool()) }
	case t == reflect.TypeFor[string]() && read != nil:
		return func(r *Reader, v reflect.Value) { read(r, v.Addr().Interface().(*string)) }
	}
	panic(fmt.Sprintf("intake: no field can be a %s of kind %q", t, kind))
}

func (o *object) read(r *Reader, v reflect.Value) {
	isObject, start := r.Kind() == '{', r.Offset()
	r.Object(func(key []byte) { o.field(r, v, key) })
	if isObject && o.span != nil {
		*v.FieldByIndex(o.span).Addr().Interface().(*Span) = Span{start, r.Offset()}
	}
}

func (o *object) field(r *Reader, v reflect.Value, key []byte) {
	if f, ok := o.fields[string(key)]; ok {
		f.read(r, v.FieldByIndex(f.index))
		return
	}
	r.Skip()
}
