// Package version reports the version of liveactivity.
package version

import (
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/liveactivity/liveactivity"

// Version returns the version of the module from which the program was built,
// such as "v1.2.3", or "devel" if the build does not know it.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return of(&debug.BuildInfo{})
	}
	return of(info)
})

// of returns the module's version in a build: as a dependency, or as the main module,
// whose version is "(devel)" without a release.
func of(info *debug.BuildInfo) string {
	version := ""
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			version = m.Version
		}
	}
	if version = strings.Trim(version, "()"); version == "" {
		return "devel"
	}
	return version
}
