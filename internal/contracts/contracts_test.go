package contracts_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/contracts"
	"github.com/liveactivity/liveactivity/internal/contracts/contractstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

type object = contractstest.Object

const publicURL = "https://live.example.com/base"

func documents() map[string][]byte {
	return map[string][]byte{
		"OpenAPI": contracts.OpenAPI(publicURL), "OpenAPI without a URL": contracts.OpenAPI(""),
		"AsyncAPI": contracts.AsyncAPI(publicURL), "AsyncAPI without a URL": contracts.AsyncAPI(""),
	}
}

// official returns the schema that documents of the kind must satisfy.
func official(t *testing.T, kind string) *jsonschema.Resolved {
	t.Helper()
	var data []byte
	if kind == "OpenAPI" {
		data = musttest.New(os.ReadFile("testdata/openapi-3.1.json"))
	} else {
		file := musttest.New(os.Open("testdata/asyncapi-3.0.0.json.gz"))
		defer file.Close()
		data = musttest.New(io.ReadAll(musttest.New(gzip.NewReader(file))))
		// The name of draft 7 ends with "#", which this schema leaves out.
		data = bytes.ReplaceAll(data, []byte(`draft-07/schema"`), []byte(`draft-07/schema#"`))
	}
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(data, &schema))
	resolved := musttest.New(schema.Resolve(nil))
	return resolved
}

func decoded(t *testing.T, document []byte) (value object) {
	t.Helper()
	require.NoError(t, json.Unmarshal(document, &value))
	return value
}

func TestDocuments_satisfyTheOfficialSchemas(t *testing.T) {
	schemas := map[string]*jsonschema.Resolved{"OpenAPI": official(t, "OpenAPI"), "AsyncAPI": official(t, "AsyncAPI")}
	for name, document := range documents() {
		kind, _, _ := strings.Cut(name, " ")
		assert.NoError(t, schemas[kind].Validate(decoded(t, document)), name)
	}
	untitled := decoded(t, contracts.OpenAPI(""))
	delete(untitled["info"].(object), "title")
	assert.Error(t, schemas["OpenAPI"].Validate(untitled))
	unaddressed := decoded(t, contracts.AsyncAPI(""))
	unaddressed["channels"].(object)["stream"].(object)["address"] = 1
	assert.Error(t, schemas["AsyncAPI"].Validate(unaddressed))
}

func TestDocuments_nameTheServer(t *testing.T) {
	for publicURL, want := range map[string]struct{ openAPI, asyncAPI any }{
		"": {[]any{object{"url": "."}}, object{}},
		"https://live.example.com": {[]any{object{"url": "https://live.example.com"}},
			object{"live": object{"host": "live.example.com", "protocol": "https"}}},
		"https://live.example.com/": {[]any{object{"url": "https://live.example.com"}},
			object{"live": object{"host": "live.example.com", "protocol": "https"}}},
		"http://127.0.0.1:8080": {[]any{object{"url": "http://127.0.0.1:8080"}},
			object{"live": object{"host": "127.0.0.1:8080", "protocol": "http"}}},
		"https://live.example.com/base/": {[]any{object{"url": "https://live.example.com/base"}},
			object{"live": object{"host": "live.example.com", "pathname": "/base", "protocol": "https"}}},
	} {
		assert.Equal(t, want.openAPI, decoded(t, contracts.OpenAPI(publicURL))["servers"], publicURL)
		assert.Equal(t, want.asyncAPI, decoded(t, contracts.AsyncAPI(publicURL))["servers"], publicURL)
	}
}

func TestDocuments_sayTheVersionOfTheProgram(t *testing.T) {
	for name, document := range documents() {
		assert.Equal(t, "devel", decoded(t, document)["info"].(object)["version"], name)
	}
}

// visit calls f with every object of a document and its path.
func visit(value any, at string, f func(at string, o object)) {
	switch value := value.(type) {
	case object:
		f(at, value)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			visit(value[name], at+"/"+name, f)
		}
	case []any:
		for _, item := range value {
			visit(item, at, f)
		}
	}
}

var component = regexp.MustCompile(`^#/components/(\w+)/(\w+)$`)

// Every defined component is referred to, and every reference has a definition.
func TestDocuments_haveTheComponentsThatTheyUse(t *testing.T) {
	for name, data := range documents() {
		d := contractstest.Parse(t, data)
		used, defined := map[string]bool{}, map[string]bool{}
		visit(d.Root, "", func(_ string, o object) {
			if ref, ok := o["$ref"].(string); ok {
				d.Follow(t, o)
				if m := component.FindStringSubmatch(ref); m != nil {
					used[m[1]+"/"+m[2]] = true
				}
			}
			requirements, _ := o["security"].([]any)
			for _, requirement := range requirements {
				for scheme := range requirement.(object) {
					if scheme != "$ref" {
						used["securitySchemes/"+scheme] = true
					}
				}
			}
		})
		for kind, components := range d.Root["components"].(object) {
			for component := range components.(object) {
				defined[kind+"/"+component] = true
			}
		}
		assert.Equal(t, defined, used, name)
	}
}

// Every example of a value satisfies the schema beside it.
func TestOpenAPI_examplesSatisfyTheirSchemas(t *testing.T) {
	d := contractstest.Parse(t, contracts.OpenAPI(""))
	seen := 0
	visit(d.Root, "", func(at string, o object) {
		if o["schema"] == nil {
			return
		}
		for _, example := range contractstest.Examples(object{"": o}) {
			seen++
			assert.NoError(t, d.Validate(t, o["schema"], example.Value), "%s %s", at, example.Name)
		}
	})
	assert.Greater(t, seen, 50)
}

func TestAsyncAPI_examplesSatisfyTheirSchemas(t *testing.T) {
	d := contractstest.Parse(t, contracts.AsyncAPI(""))
	for name, message := range d.Root["components"].(object)["messages"].(object) {
		examples := message.(object)["examples"].([]any)
		assert.NotEmpty(t, examples, name)
		for _, example := range examples {
			assert.NoError(t, d.Validate(t, message.(object)["payload"], example.(object)["payload"]), name)
			assert.NoError(t, d.Validate(t, message.(object)["headers"], example.(object)["headers"]), name)
		}
	}
}

// Each operation has a name of its own, a group, a credential or none, and an example for each parameter in its path.
func TestOpenAPI_operationsAreWhole(t *testing.T) {
	d := contractstest.Parse(t, contracts.OpenAPI(""))
	ids, tags := map[string]bool{}, map[string]bool{}
	for _, tag := range d.Root["tags"].([]any) {
		tags[tag.(object)["name"].(string)] = false
	}
	for _, op := range d.Operations(t) {
		assert.Regexp(t, `^[a-z]\w+$`, op.ID)
		assert.False(t, ids[op.ID], op.ID)
		ids[op.ID] = true
		assert.Contains(t, tags, op.Tag(), op.ID)
		tags[op.Tag()] = true
		assert.Contains(t, op.Fields, "security", op.ID)
		assert.NotEmpty(t, op.Fields["summary"], op.ID)
		inPath := []string{}
		for _, parameter := range d.Parameters(t, op) {
			if parameter["in"] == "path" {
				inPath = append(inPath, parameter["name"].(string))
				assert.NotNil(t, parameter["example"], op.ID)
			}
		}
		named := []string{}
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(op.Path, -1) {
			named = append(named, m[1])
		}
		assert.Equal(t, named, inPath, op.ID)
		if op.Fields["requestBody"] != nil {
			assert.NotEmpty(t, d.Bodies(t, op), op.ID)
		}
	}
	for tag, used := range tags {
		assert.True(t, used, tag)
	}
}

// An action of the stream is an action of a lookup with its session, user, address and conversation.
func TestDocuments_agreeOnTheFieldsOfAnAction(t *testing.T) {
	action := func(document []byte) object {
		return decoded(t, document)["components"].(object)["schemas"].(object)["Action"].(object)["properties"].(object)
	}
	lookup, stream := action(contracts.OpenAPI("")), action(contracts.AsyncAPI(""))
	for name, schema := range lookup {
		if name != "index" { // it counts over another list
			assert.Equal(t, schema, stream[name], name)
		}
		delete(stream, name)
	}
	assert.ElementsMatch(t, []string{"session_id", "user_id", "email", "conversation_id"},
		slices.Collect(maps.Keys(stream)))
}

// Generators such as oapi-codegen support neither boolean schemas nor lists of types.
func TestOpenAPI_usesOnlySchemasThatGeneratorsKnow(t *testing.T) {
	var check func(value any, path string)
	check = func(value any, path string) {
		switch v := value.(type) {
		case []any:
			for i, element := range v {
				check(element, fmt.Sprint(path, "/", i))
			}
		case object:
			for key, member := range v {
				at := path + "/" + key
				_, isBool := member.(bool)
				_, isList := member.([]any)
				assert.False(t, isBool && key != "additionalProperties" &&
					(strings.HasSuffix(path, "/properties") || key == "items"), at)
				assert.False(t, isList && key == "type", at)
				if key != "example" && key != "examples" {
					check(member, at)
				}
			}
		}
	}
	check(decoded(t, contracts.OpenAPI("")), "")
}

// A client other than a browser has no Origin, and learns that from a 403.
func TestOpenAPI_requiresNoHeaderThatBrowsersSet(t *testing.T) {
	assert.NotRegexp(t, `"name": "Origin", "in": "header", "required": true`, string(contracts.OpenAPI("")))
}
