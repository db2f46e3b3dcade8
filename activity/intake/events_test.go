package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

const wordless = "takes no properties and no sentence"

func TestRules_reportEveryMistake(t *testing.T) {
	long, many, eleven := strings.Repeat("ü", 201), intake.Rules{}, make([]string, 11)
	for i := range 201 {
		many[fmt.Sprint(i)] = intake.Rule{}
	}
	for i := range eleven {
		eleven[i] = fmt.Sprint(i)
	}
	named := func(name string) intake.Rules { return intake.Rules{name: {}} }
	a := func(sentence string, properties ...string) intake.Rules {
		return intake.Rules{"a": {Sentence: sentence, Properties: properties}}
	}
	for name, c := range map[string]struct {
		rules intake.Rules
		want  string // without "events."
	}{
		"none":                     {nil, ""},
		"as much as there may be":  {intake.Rules{long[2:]: a(long[2:], eleven[1:]...)["a"], "a*": {}}, ""},
		"too many":                 {many, "events: must be at most 200"},
		"no name":                  {named(""), ": the name must not be empty"},
		"a blank name":             {named(" "), " : the name must not be empty"},
		"space behind a name":      {named("a "), "a : the name must not start or end with white space"},
		"a long name":              {named(long), long[:400] + ": the name must have at most 200 characters"},
		"a star within":            {named("a*b"), "a*b: the name can have a * at the end only"},
		"two stars":                {named("a**"), "a**: the name can have a * at the end only"},
		"an error with a sentence": {intake.Rules{"$exception": a("x")["a"]}, "$exception: " + wordless},
		"a mark with properties":   {intake.Rules{"$rageclick": a("", "x")["a"]}, "$rageclick: " + wordless},
		"an error and a mark":      {intake.Rules{"$exception": {}, "$dead_click": {}}, ""},
		"a blank sentence":         {a(" "), "a.sentence: must not be empty"},
		"a long sentence":          {a(long), "a.sentence: must have at most 200 characters"},
		"too many properties":      {a("", eleven...), "a.properties: must be at most 10"},
		"an empty property":        {a("", "b", ""), "a.properties[1]: must not be empty"},
		"a property twice":         {a("", "b", "c", "b"), `a.properties[2]: "b" is a duplicate`},
		"several, in order of names": {intake.Rules{"b": a(" ")["a"], "a ": {}},
			"a : the name must not start or end with white space; b.sentence: must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(c.rules.Validate(), "; ")
			assert.Equal(t, c.want, strings.ReplaceAll(got, "events.", ""))
		})
	}
}

// An exact name comes before a prefix, and a longer prefix before a shorter one.
func TestEvents_findTheClosestRule(t *testing.T) {
	rule := func(sentence string) intake.Rule { return intake.Rule{Sentence: sentence} }
	events := intake.NewEvents(intake.Rules{"*": rule("all"), "Invoice *": rule("prefix"), "In*": rule("shorter"),
		"Invoice Sent": rule("exact"), "$p*": rule("vendor's"), "$rageclick": {}})
	for name, want := range map[string]string{"Invoice Sent": "exact", "Invoice Paid": "prefix", "Invoice ": "prefix",
		"Input": "shorter", "other": "all", "$page": "vendor's", "$other": "", "$rageclick": "", "": "", " \u200b": ""} {
		got := ""
		if rule := events.Find(name); rule != nil {
			got = rule.Sentence
		}
		assert.Equal(t, want, got, name)
	}
	assert.Nil(t, intake.NewEvents(intake.Rules{}))
	assert.Nil(t, intake.NewEvents(nil).Find("x"))
}

func TestEvents_marksAreListedLikeEvents(t *testing.T) {
	for list, want := range map[string]string{"$rageclick": "rage,,true", "$dead_click": ",dead,true",
		"$*": "rage,dead,true", "*": ",,false", "$exception": ",,false"} {
		e := intake.NewEvents(intake.Rules{list: {}})
		assert.Equal(t, want, fmt.Sprint(e.Mark("$rageclick"), ",", e.Mark("$dead_click"), ",", e.Marks()), list)
		assert.Empty(t, e.Mark("$exception"))
		assert.Nil(t, e.Find("$rageclick"))
	}
	assert.False(t, intake.NewEvents(nil).Marks())
}

// A rule shows its properties in its order, scalars only.
func TestRule_showsItsProperties(t *testing.T) {
	rule := intake.Rule{Properties: []string{"seats", "plan", "list", "object", "none", "paid", "missing", "long"}}
	r := &intake.Reader{}
	long := strings.Repeat("x", 1025)
	r.Reset([]byte(`{"plan":"free","card":"4111","plan":"pro","seats":3,"list":"x","list":["a"],` +
		`"object":{"plan":"x"},"none":null,"paid":true,"long":"` + long + `"}`))
	assert.Equal(t, []activity.Property{{Name: "seats", Value: "3"}, {Name: "plan", Value: "pro"}, {Name: "list"},
		{Name: "object"}, {Name: "none"}, {Name: "paid", Value: "true"}, {Name: "missing"},
		{Name: "long", Value: long[1:]}}, rule.Read(r))
	assert.NoError(t, r.Err())
	none := intake.Rule{}
	assert.Nil(t, none.Read(r))
	e := eventOf(t, "capture", view(fieldsOf{"plan": "pro", "card": "4111"}))
	assert.Equal(t, "User did view (plan: pro) on the billing page", e.Action.Description)
}
