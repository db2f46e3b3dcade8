package posthog

import (
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/element"
)

// These exports open the package's internals to its tests.

type Element = element.Element

const (
	MaxEvents   = intake.MaxEvents
	MaxElements = maxElements
)

func ParseChain(chain string) []Element { return parseChain(nil, chain) }
