package jsonscan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

func TestShapeOf(t *testing.T) {
	tests := map[string]struct {
		body string
		want jsonscan.Shape
	}{
		"nothing":             {``, jsonscan.Shape{}},
		"an object":           {`{"a":1,"b":[2,{"c":3}]}`, jsonscan.Shape{Depth: 3, Values: 5}},
		"a batch of one":      {`[{"a":1,"b":2}]`, jsonscan.Shape{Depth: 2, Values: 3, Elements: 1}},
		"a batch of three":    {" \r\n\t[{},{},{}]", jsonscan.Shape{Depth: 2, Values: 6, Elements: 3}},
		"in strings":          {`{"a":"[[[,,,{{{","b\"[":"\\"}`, jsonscan.Shape{Depth: 1, Values: 2}},
		"an endless nesting":  {strings.Repeat("[", 1000), jsonscan.Shape{Depth: 1000, Values: 1000, Elements: 1}},
		"a string cut short":  {`["\`, jsonscan.Shape{Depth: 1, Values: 1, Elements: 1}},
		"closed but not open": {`]]]]{}`, jsonscan.Shape{Values: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, jsonscan.ShapeOf([]byte(tt.body))) })
	}
}
