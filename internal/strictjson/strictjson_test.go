package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/strictjson"
)

// config has a field of each kind that a Decoder takes.
type config struct {
	Common
	Name   string                     `json:"name"`
	On     *bool                      `json:"on"`
	Size   int                        `json:"size"`
	Keys   []string                   `json:"keys" secret:"true"`
	Desks  []desk                     `json:"desks"`
	ByName map[string]desk            `json:"by_name"`
	Hidden string                     `json:"-"`
	Others map[string]json.RawMessage `json:"-" others:"true"`
}

// Common is embedded in config.
type Common struct {
	Token string `json:"token" secret:"true"`
}

type desk struct {
	URL   string `json:"url"`
	Hosts hosts  `json:"hosts"`
}

// hosts may also be a string.
type hosts []string

func (h *hosts) UnmarshalJSON(b []byte) error {
	if b[0] != '"' {
		return json.Unmarshal(b, (*[]string)(h))
	}
	*h = make(hosts, 1)
	return json.Unmarshal(b, &(*h)[0])
}

// decode decodes JSON where the environment has NAME, and an empty EMPTY.
func decode(text string) (c config, d strictjson.Decoder) {
	env := map[string]string{"NAME": "ada${NAME}", "EMPTY": ""}
	d = strictjson.Decoder{Whole: "the file", Getenv: func(name string) (value string, ok bool) {
		value, ok = env[name]
		return value, ok
	}}
	d.Decode([]byte(text), &c)
	return c, d
}

func TestDecoder_storesEachKindOfField(t *testing.T) {
	c, d := decode("\xef\xbb\xbf" + `{"token": "t", "name": " a ${NAME} ${EMPTY}b", "on": true, "size": 3,
		"keys": ["k", "l"], "desks": [{"url": "u"}, {"url": ""}], "by_name": {"x": {"hosts": "h"}},
		"other": {"key": "${NAME}", "more": [1, {"yes": null}]}}`)
	assert.Empty(t, d.Wrong)
	on := true
	assert.Equal(t, config{Common: Common{"t"}, Name: " a ada${NAME} b", On: &on, Size: 3, Keys: []string{"k", "l"},
		Desks: []desk{{URL: "u"}, {}}, ByName: map[string]desk{"x": {Hosts: hosts{"h"}}},
		Others: map[string]json.RawMessage{"other": json.RawMessage(`{"key":"ada${NAME}","more":[1,{"yes":null}]}`)}}, c)
}

func TestDecoder_reportsAllMistakesWithTheirPlaces(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 9) + `{}` + strings.Repeat(`}`, 9)
	for text, want := range map[string][]string{
		`[]`:                        {"the file: must be an object"},
		"{\n \"näme\": \"a\" x}":    {"line 2, column 14: not valid JSON"},
		"{\n \"name\": \"a\"  \n\n": {"line 2, column 13: not valid JSON: it ends too soon"},
		"{\"name\": \"\xff\"}":      {"line 1, column 11: not valid JSON: a character is not UTF-8"},
		"":                          {"line 1, column 1: not valid JSON: it ends too soon"},
		"\n\n":                      {"line 1, column 1: not valid JSON: it ends too soon"},
		"\ufeff{]":                  {"line 1, column 2: not valid JSON"},
		"{\n \"name\": \"a\",\n}":   {"line 3, column 1: not valid JSON"},
		"{\n \"name\n}":             {"line 2, column 7: not valid JSON"},
		`{"keys": ["s3cr3t`:         {"line 1, column 18: not valid JSON: it ends too soon"},
		"{}\n{}":                    {"line 2, column 1: not valid JSON"},
		`{"name": 1, "on": null, "size": 1.5, "keys": {}, "desks": [{"url": "u"}, {"URL": "u"}], "by_name": []}`: {
			"name: must be a string", "on: must be true or false", "size: must be an integer", "keys: must be an array",
			"desks[1].URL: is not a known field; did you mean \"url\"?", "by_name: must be an object"},
		`{"desks": [{"hosts": 7}]}`:             {"desks[0].hosts: must be a string or an array"},
		`{"name": "a", "name": 1, "token": ""}`: {"name: is a duplicate", "token: must not be empty"},
		`{"token": " t", "keys": ["k", " "]}`: {"token: must not start or end with white space",
			"keys[1]: must not be empty"},
		`{"name": "${NO} ${NOR}"}`: {"name: the environment variable NO is not set",
			"name: the environment variable NOR is not set"},
		`{"-": {}, "other": 1, "third": {"list": [], "key": ""}}`: {"other: must be an object",
			"third.list: must not be empty", "third.key: must not be empty"},
		`{"other": ` + deep + `}`: {"other.a.a.a.a.a.a.a.a.a: is nested too deep"},
	} {
		_, d := decode(text)
		assert.Equal(t, want, []string(d.Wrong), text)
		assert.Empty(t, d.Warnings, text)
	}
}

func TestDecoder_storesNoWrongValue(t *testing.T) {
	c, _ := decode(`{"name": "x${NO}", "on": 1, "keys": ["k", " "], "by_name": {"x": 1, "y": {}}}`)
	assert.Equal(t, config{Keys: []string{"k", ""}, ByName: map[string]desk{"y": {}}}, c)
}

func TestDecoder_warnsOfAMalformedVariable(t *testing.T) {
	c, d := decode(`{"name": "$NAME", "token": "a$1$$ ${NAME}$", "keys": ["${NAME"], "desks": [{"url": "${NAME}.$B"}]}`)
	assert.Equal(t, strictjson.Problems{"name: a $ that ${NAME} does not follow is taken as it stands",
		"keys[0]: a $ that ${NAME} does not follow is taken as it stands",
		"desks[0].url: a $ that ${NAME} does not follow is taken as it stands"}, d.Warnings)
	assert.Equal(t, "$NAME", c.Name)
}

func TestDecoder_leavesVariablesWithoutAnEnvironment(t *testing.T) {
	var c config
	d := strictjson.Decoder{}
	d.Decode([]byte(`{"name": "${NAME} $a", "other": {"b": "\u003c", "a": 1.50}}`), &c)
	assert.Empty(t, append(d.Wrong, d.Warnings...))
	assert.Equal(t, "${NAME} $a", c.Name)
	assert.Equal(t, `{"b": "\u003c", "a": 1.50}`, string(c.Others["other"]), "the text is unchanged")
}

func TestProblems_News_leavesOutKnownFields(t *testing.T) {
	known := strictjson.Problems{"a.b: x", "c[0]: x"}
	assert.Equal(t, []string{"a.bc: y", "d: y"}, known.News([]string{"a: y", "a.b: y", "a.b.c: y", "a.b[1]: y", "a.bc: y",
		"c: y", "d: y"}))
	assert.Empty(t, strictjson.Problems{": all"}.News([]string{"a: y"}))
}
