package activity_test

import (
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

func TestCleanURL(t *testing.T) {
	const host = "https://app.example.com"
	for _, c := range []struct{ name, raw, want string }{
		{"nothing to hide", host + "/a;v=1/b?c=d&e#f", host + "/a;v=1/b?c=d&e#f"},
		{"spelling stays", "HTTPS://App.Example.com:443/a b/", "HTTPS://App.Example.com:443/a b/"},
		{"empty", "", ""},
		{"white space around", " \n" + host + "/ \t", host + "/"},
		{"control characters", "https://app.\texample.com/\x00a\r\nb\u0085", host + "/ab"},
		{"line separators", "https://app.\u2028example.com/a\u2029b?c=\u2028d", host + "/ab?c=d"},
		{"what is not UTF-8", host + "/a\xffb\ufffd", host + "/ab\ufffd"},

		{"password", "https://ada:secret@app.example.com/a?b", host + "/a?b"},
		{"password with at signs", "https://ada:se@cr@et@app.example.com/a", host + "/a"},
		{"password behind too many slashes", "https:///ada:secret@app.example.com/a", "https:///app.example.com/a"},
		{"password behind backslashes", `https:\\ada:secret@app.example.com/a`, `https:\\app.example.com/a`},
		{"password behind one slash", "http:/ada:secret@app.example.com/a", "http:/app.example.com/a"},
		{"password behind no slash", "https:ada:secret@app.example.com/a", "https:app.example.com/a"},
		{"password behind tabs and newlines", "\x01ht\ttps:/\n/ada:sec\rret@app.example.com/a", host + "/a"},
		{"password without a scheme", "//ada:secret@app.example.com/a", "//app.example.com/a"},
		{"password without a scheme behind backslashes", `\/ada:secret@app.example.com/a`, `\/app.example.com/a`},
		{"password ended by a question mark", "https://ada:secret@app.example.com?x=@y", host + "?x=@y"},
		{"password ended by a fragment", "https://ada:secret@app.example.com#x@y", host + "#x@y"},
		{"password, percent-encoded", "https://ada%3Asecret%40app.example.com/a", host + "/a"},
		{"password of a wrapped address", "Blob:https://ada:secret@app.example.com/a", "Blob:https://app.example.com/a"},
		{"at sign in the path", host + "/@ada/posts", host + "/@ada/posts"},

		{"query", host + "/cb?a=1&code=s3cret&state=s3cret&b=2", host + "/cb?a=1&code=redacted&state=redacted&b=2"},
		{"first of the query", host + "?token=s3cret", host + "?token=redacted"},
		{"empty value", host + "/?token=&key", host + "/?token=&key"},
		{"value with delimiters", host + "/?token=s3/c?r=e;t&b=2#c", host + "/?token=redacted&b=2#c"},
		{"any case, hyphens and underscores", host +
			"/?Access-Token=x&API_KEY=x&apikey=x&X-Amz-Signature=x&PHPSESSID=x&client-_secret=x&accessToken=x",
			host + "/?Access-Token=redacted&API_KEY=redacted&apikey=redacted&X-Amz-Signature=redacted&PHPSESSID=redacted&" +
				"client-_secret=redacted&accessToken=redacted"},
		{"the other names", host + "/?id_token=x&key=x&secret=x&password=x&sig=x&signature=x&session=x&sid=x&jwt=x&" +
			"refresh_token=x",
			host + "/?id_token=redacted&key=redacted&secret=redacted&password=redacted&sig=redacted&signature=redacted&" +
				"session=redacted&sid=redacted&jwt=redacted&refresh_token=redacted"},
		{"words of a name", host + "/?SAMLResponse=x&RelayState=x&otp=1&user_pin=1&resetPasswd=x&auth.header=x&" +
			"OAuthNonce=x&XMLTicketID=x&my-assertion=x",
			host + "/?SAMLResponse=redacted&RelayState=redacted&otp=redacted&user_pin=redacted&resetPasswd=redacted&" +
				"auth.header=redacted&OAuthNonce=redacted&XMLTicketID=redacted&my-assertion=redacted"},
		{"words run together", host + "/?apitoken=x&LoginToken=x&appsecret=x&newpassword=x&userpasswd=x&passcode=x&sessid=x",
			host + "/?apitoken=redacted&LoginToken=redacted&appsecret=redacted&newpassword=redacted&" +
				"userpasswd=redacted&passcode=redacted&sessid=redacted"},
		{"words before and after numbers", host + "/?password2=x&IDToken1=x&oauth2State=x&my_apikey=x&SAMLart=x&code39=x",
			host + "/?password2=redacted&IDToken1=redacted&oauth2State=redacted&my_apikey=redacted&SAMLart=redacted&" +
				"code39=redacted"},
		{"words that are no credentials", host +
			"/?pinned=1&author=a&ticketing=b&SAMPLE=c&passage=d&stateless=e&Keys=f&codec=g",
			host + "/?pinned=1&author=a&ticketing=b&SAMPLE=c&passage=d&stateless=e&Keys=f&codec=g"},
		{"names that only begin or end like one", host + "/?tokens=1&keyword=b&zipcode=c&statement=d&monkey=e&sidebar=f",
			host + "/?tokens=1&keyword=b&zipcode=c&statement=d&monkey=e&sidebar=f"},
		{"name in the value", host + "/?q=token&r=code%20x", host + "/?q=token&r=code%20x"},
		{"percent-encoded name", host + "/?%74oken=x&access%5Ftoken=y&%2574oken=z",
			host + "/?%74oken=redacted&access%5Ftoken=redacted&%2574oken=redacted"},
		{"names of arrays and objects", host + "/?token[]=x&user[password]=y&auth.token=z&user%5Bsecret%5D=a",
			host + "/?token[]=redacted&user[password]=redacted&auth.token=redacted&user%5Bsecret%5D=redacted"},
		{"long name", host + "/?" + strings.Repeat("a_", 500) + "token=x",
			host + "/?" + strings.Repeat("a_", 500) + "token=redacted"},
		{"letters beyond ASCII", host + "/?éToken=x&ñandúKey=y&%C3%A9Pin=1&monkéy=z",
			host + "/?éToken=redacted&ñandúKey=redacted&%C3%A9Pin=redacted&monkéy=z"},
		{"name encoded over and over", host + "/?%" + strings.Repeat("25", 20) + "74oken=x",
			host + "/?%" + strings.Repeat("25", 20) + "74oken=redacted"},
		{"name with a broken escape", host + "/?%zz%5F%74oken=x&%&%4=y", host + "/?%zz%5F%74oken=redacted&%&%4=y"},
		{"a percent sign in a name", host + "/?100%=x&100%25=y", host + "/?100%=x&100%25=y"},
		{"semicolons between parameters", host + "/?a=1;token=x&amp;code=y", host + "/?a=1;token=redacted&amp;code=redacted"},
		{"a second question mark", host + "/?a=1?token=x", host + "/?a=1?token=redacted"},
		{"name broken by a newline", host + "/?to\nken=x", host + "/?token=redacted"},

		{"fragment", host + "/cb#access_token=s3/cret&token_type=bearer&id_token=x",
			host + "/cb#access_token=redacted&token_type=redacted&id_token=redacted"},
		{"query of a hash route", host + "/#/cb?code=s3/cret&x=1", host + "/#/cb?code=redacted&x=1"},
		{"query of a hash route with exclamation mark", host + "/#!/cb?code=s3cret", host + "/#!/cb?code=redacted"},
		{"exclamation mark before a name", host + "/#!token=s3cret", host + "/#!token=redacted"},
		{"path parameter of a hash route", host + "/#/a;jsessionid=s3cret/b", host + "/#/a;jsessionid=redacted/b"},
		{"fragment of a fragment", host + "/#/a#token=s3/cret", host + "/#/a#token=redacted"},
		{"path parameter", host + "/a;jsessionid=s3cret/b;v=1;sid=s3cret?c",
			host + "/a;jsessionid=redacted/b;v=1;sid=redacted?c"},
		{"path parameter, percent-encoded", host + "/a%3Bjsessionid%3Ds3cret/b", host + "/a%3Bjsessionid%3Dredacted/b"},
		{"query behind an ampersand", host + "/a&token=s3cret", host + "/a&token=redacted"},
		{"no address at all", "token=s3cret", "token=redacted"},

		{"address in a value", host + "/login?next=https%3A%2F%2Fa.example%2Fcb%3Fcode%3Ds3cret%26x%3D1%26state%3Ds3cret&y=2",
			host + "/login?next=https%3A%2F%2Fa.example%2Fcb%3Fcode%3Dredacted%26x%3D1%26state%3Dredacted&y=2"},
		{"address in a value in a value", host + "/?n=%2Fa%3Fn%3D%252Fb%253Ftoken%253Ds3cret%2526x%253D1",
			host + "/?n=%2Fa%3Fn%3D%252Fb%253Ftoken%253Dredacted%2526x%253D1"},
		{"address in a value in a value in a value",
			host + "/?n=%2Fa%3Fn%3D%252Fb%253Fn%253D%25252Fc%25253Ftoken%25253Ds3cret%252526x",
			host + "/?n=%2Fa%3Fn%3D%252Fb%253Fn%253D%25252Fc%25253Ftoken%25253Dredacted%252526x"},
		{"password of an address in a value", host + "/login?next=https://ada:se@cret@a.example/b@c?x=1&y=d@e",
			host + "/login?next=https://a.example/b@c?x=1&y=d@e"},
		{"password of an address in a value, percent-encoded",
			host + "/?n=https%3A%2F%2Fada%3Ase;c=ret%40a.example%2Fb%40c&y=2", host + "/?n=https%3A%2F%2Fa.example%2Fb%40c&y=2"},
		{"password of an address in a value in a value",
			host + "/?n=%2Fa%3Fn%3Dhttps%253a%252F%252fada%253Asecret%2540a.example%2526x",
			host + "/?n=%2Fa%3Fn%3Dhttps%253a%252F%252fa.example%2526x"},
		{"password of an address in the path", host + "/web/2026/https://ada:secret@a.example/b",
			host + "/web/2026/https://a.example/b"},
		{"password of an address in the fragment", host + "/#https://ada:secret@a.example", host + "/#https://a.example"},
		{"passwords of addresses one in the other", host + "/https://a:b@http://c:d@e", host + "/https://http://e"},
		{"at sign behind slashes that follow no colon", host + "/a//@ada/b:/@ada///@ada", host + "/a//@ada/b:/@ada///@ada"},
		{"at sign behind three slashes", host + "/file:///@ada", host + "/file:///@ada"},
		{"value with delimiters that are encoded", host + "/?token=a%26b%3Dc%23d&x=1", host + "/?token=redacted&x=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean, canonical := activity.CleanURL(c.raw)
			assert.Equal(t, c.want, clean)
			assert.Equal(t, activity.CanonicalURL(c.want), canonical)
			again, _ := activity.CleanURL(clean)
			assert.Equal(t, clean, again, "a clean URL must stay as it is")
		})
	}
}

func TestCleanURL_cutsAfter2KiB(t *testing.T) {
	const limit = 2 << 10
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ name, raw, clean, canonical string }{
		{"path", "https://h/" + long, "https://h/" + long[:limit-10], "https://h/" + long[:limit-10]},
		{"query", "https://h/a?" + long, "https://h/a?" + long[:limit-12], "https://h/a"},
		{"hash route behind a query", "https://h/a?" + long[:limit] + "#/orders/7", "https://h/a?" + long[:limit-12],
			"https://h/a#/orders/:id"},
		{"credential", "https://h/a?token=" + long[:limit] + "&b=1", "https://h/a?token=redacted&b=1", "https://h/a"},
		{"credential that never ends", "https://h/a?token=" + long, "https://h/a?token=redacted", "https://h/a"},
		{"password", "https://u:" + long[:limit] + "@h/a", "https://h/a", "https://h/a"},
		{"password that never ends", "https://u:" + long, "https://", "https:///"},
		{"password that was cut", "https://u:" + long[:3*limit], "https://", "https:///"},
		{"password that ends too late", "https://u:" + long + "@h/", "https://", "https:///"},
		{"white space before", strings.Repeat(" ", 1<<20) + "https://h/a", "https://h/a", "https://h/a"},
		{"control characters inside", "https://h/" + strings.Repeat("\t", 1<<20) + "a", "https://h/a", "https://h/a"},
		{"host that ends too late", "https://" + long[:limit] + "/a@b", "https://", "https:///"},
		{"character at the cut", "https://h/" + strings.Repeat("日", 1000), "https://h/" + strings.Repeat("日", 679),
			"https://h/" + strings.Repeat("日", 679)},
		{"white space at the cut", "https://h/" + long[:limit-12] + " b c", "https://h/" + long[:limit-12] + " b",
			"https://h/"},
		{"scheme and host up to the cut", long[:limit-100] + "://" + long[:97] + "/a/b", long[:limit-100] + "://" + long[:97],
			long[:limit-100] + ":"},
		{"many identifiers", "https://h" + strings.Repeat("/1", limit), "https://h" + strings.Repeat("/1", (limit-9)/2) + "/",
			"https://h" + strings.Repeat("/:id", (limit-9)/4)},
		{"credential at the cut", "https://h/?" + long[:limit-15] + "&token=s3cret", "https://h/?" + long[:limit-15] + "&tok",
			"https://h/"},
		{"value at the cut", "https://h/?" + long[:limit-19] + "&token=s3cret", "https://h/?" + long[:limit-19] + "&token=r",
			"https://h/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean, canonical := activity.CleanURL(c.raw)
			assert.Equal(t, c.clean, clean)
			assert.Equal(t, c.canonical, canonical)
			again, _ := activity.CleanURL(clean)
			assert.Equal(t, clean, again)
		})
	}
}

// Cleaning a URL of a MiB allocates less than 512 KiB, so the result does not keep a request in
// memory.
func TestCleanURL_needsLittleMemory(t *testing.T) {
	for name, raw := range map[string]string{
		"text":        "https://h/" + strings.Repeat("x", 1<<20),
		"delimiters":  "https://h/?" + strings.Repeat("&", 1<<20),
		"credentials": "https://h/?" + strings.Repeat("token=x&", 1<<17),
		"controls":    strings.Repeat("\t", 1<<20),
		"invalid":     strings.Repeat("\xff", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			activity.CleanURL(raw)
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<10))
		})
	}
}

func TestNewAction_cleansItsURL(t *testing.T) {
	a := activity.NewAction(activity.TypePageview, activity.Target{},
		"https://ada:secret@app.example.com/cart;jsessionid=s3cret?token=s3cret")
	assert.Equal(t, "https://app.example.com/cart;jsessionid=redacted?token=redacted", a.RawURL)
	assert.Equal(t, "https://app.example.com/cart", a.CanonicalURL)
	assert.Equal(t, "User landed on the cart page", a.Description)
}

func FuzzCleanURL(f *testing.F) {
	for _, raw := range []string{
		"https://u:p@h/a;sid=1?token=x&y#/z?code=1", "https:\\\\u:p@h", "%3D%253b=;?#", "//u%40h?x",
		"https://h/?n=https://u:p@h/@", "h://h?%3A%2f%252Fu%2540@/@", "blob:x", strings.Repeat("https://h/?token=1&", 150),
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		clean, canonical := activity.CleanURL(raw)
		again, second := activity.CleanURL(clean)
		require.Equal(t, clean, again)
		if cut := len(raw) > 200 && (len(clean) >= 2<<10-utf8.UTFMax || strings.ContainsFunc(raw, unicode.IsSpace)); !cut {
			require.Equal(t, canonical, second)
		}
		require.Equal(t, canonical, activity.CanonicalURL(canonical))
		require.LessOrEqual(t, max(len(clean), len(canonical)), 2<<10)
		require.True(t, utf8.ValidString(clean))
		require.False(t, strings.ContainsFunc(clean, unicode.IsControl), "%q", clean)
		require.NotContains(t, authority(canonical), "@")
	})
}
