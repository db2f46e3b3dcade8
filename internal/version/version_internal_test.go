package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersion_isTheModules(t *testing.T) {
	other := debug.Module{Path: "example.com/shop", Version: "v9.9.9"}
	for name, tt := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"a release": {debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"},
			Deps: []*debug.Module{&other}}, "v1.2.3"},
		"a working copy": {debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "devel"},
		"part of a program": {debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: module, Version: "v1.2.3"}}},
			"v1.2.3"},
		"a replaced module": {debug.BuildInfo{Main: other,
			Deps: []*debug.Module{{Path: module, Version: "v0.0.0", Replace: &debug.Module{Path: "../x"}}}}, "v0.0.0"},
		"nothing known": {debug.BuildInfo{}, "devel"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, of(&tt.info)) })
	}
}
