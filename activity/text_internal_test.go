package activity

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzFold checks labels against a plain definition.
func FuzzFold(f *testing.F) {
	long := strings.Repeat("word ", 30)
	for _, s := range []string{"", " ", "Save", " Save  changes\n", "a\u200db", "\u200d a \u200d", "a \u200d b",
		"\x00\u0085\u200b\u202ea", "\xff\xed", "Add\u00a0to\u2003\u3000cart\u2028now", "A\x00d\x1b[1md\x7f\u0080",
		"\u202egpj.exe\u202c \u2066x\u2069\u200f", "a\u200bb\ufeffc\u00add\u2060", "\u200d", "👩\u200d👩\u200d👧", "שלום עולם",
		"e\u0301te\u0301", "<b>&amp;</b>", long, long[:80], long[:81], long[:80] + "more", long[:79] + "\u200d\u200d \u200b",
		strings.Repeat("x", 100), strings.Repeat("語", 81), " " + strings.Repeat("é", 80) + "\n",
		strings.Repeat("a", 39) + " " + strings.Repeat("b", 40) + " c", strings.Repeat("a", 79) + " b",
		strings.Repeat("a", 78) + " bc", strings.Repeat("\u200b", 100) + long, strings.Repeat("\u200da", 60)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		visible := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsSpace(r):
				return ' '
			case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != joiner:
				return -1
			}
			return r
		}, s)
		want := strings.Join(strings.Fields(strings.Trim(visible, string(joiner)+" ")), " ")
		require.Equal(t, want, fold(s))
		if runes := []rune(want); len(runes) > maxLabel {
			head := string(runes[:maxLabel])
			if i := strings.LastIndexByte(head, ' '); i > 0 {
				head = head[:i]
			} else {
				head = string(runes[:maxLabel-1])
			}
			want = strings.TrimRight(head, " ") + "…"
		}
		require.Equal(t, want, CleanLabel(s))
		require.Equal(t, want, CleanLabel(want), "not idempotent for %q", s)
	})
}
