package servercmd

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/version"
)

// versionFlags are the flags of version.
type versionFlags struct {
	JSON bool `name:"json" help:"Print version, commit, time of the commit and Go version as JSON."`
	command.Common
}

// build describes this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // empty if the build does not know it
	Time     string `json:"time"`     // the commit's time
	Modified bool   `json:"modified"` // files differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// printVersion is the command that prints the version. Only a build within a repository knows
// the commit; go install with a version does not.
func printVersion(_ context.Context, f versionFlags, c call) error {
	if !f.JSON {
		fmt.Fprintln(c.stdout, version.Version())
		return nil
	}
	b := build{Version: version.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	line, err := jsontext.Marshal(b)
	fmt.Fprintf(c.stdout, "%s\n", line)
	return err
}
