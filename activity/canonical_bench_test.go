package activity_test

import (
	"testing"

	"github.com/liveactivity/liveactivity/activity"
)

func BenchmarkCanonicalURL(b *testing.B) {
	for name, url := range map[string]string{
		"words":       "https://app.acme.example/settings/billing-and-plans?tab=x",
		"identifiers": "https://App.Acme.example:443/projects/42/tasks/3f2504e0-4f89-11d3-9a0c-0305e82c3301?tab=open#top",
		"prefixed":    "https://app.acme.example/api/v1/customers/cus_9s6XKzkNRiz8i3",
		"slug":        "https://app.acme.example/blog/top-10-tips-for-2026",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				activity.CanonicalURL(url)
			}
		})
	}
}
