package servercmd

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/demo"
	"github.com/liveactivity/liveactivity/internal/llm"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// The command gets its settings in three steps: kong fills flags from arguments and environment
// variables; settings parses them; validate calls the service's own Validate and translates its
// mistakes from option names to flag names. A pointer is a flag that may be omitted but not
// empty: see [command.Mistakes.Given].

// flags are the command's flags. Every flag has an environment variable. Flags
// that must be parsed are strings, so that all mistakes are reported together.
type flags struct {
	Addr              string  `default:"127.0.0.1:8080" env:"LIVEACTIVITY_ADDR" help:"${addr}"`
	Config            *string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"${config}"`
	DataDir           *string `env:"LIVEACTIVITY_DATA_DIR" placeholder:"DIR" help:"${data_dir}"`
	RedisURL          *string `env:"LIVEACTIVITY_REDIS_URL" placeholder:"URL" help:"${redis_url}"`
	RedisPrefix       *string `env:"LIVEACTIVITY_REDIS_PREFIX" placeholder:"NAME" help:"${redis_prefix}"`
	ActivityTTL       string  `default:"14400" env:"ACTIVITY_TTL_S" help:"${activity_ttl}"`
	ActivityMaxEvents string  `default:"50" env:"ACTIVITY_MAX_EVENTS" help:"${activity_max_events}"`
	LogMaxBytes       *string `env:"LIVEACTIVITY_LOG_MAX_BYTES" placeholder:"BYTES" help:"${log_max_bytes}"`
	StateMaxBytes     *string `env:"LIVEACTIVITY_STATE_MAX_BYTES" placeholder:"BYTES" help:"${state_max_bytes}"`
	AdminKey          *string `env:"LIVEACTIVITY_ADMIN_KEY" placeholder:"KEY" help:"${admin_key}"`
	PublicURL         *string `env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"${public_url}"`
	Heartbeat         string  `default:"15s" env:"LIVEACTIVITY_HEARTBEAT" help:"${heartbeat}"`
	MetricsAddr       *string `env:"LIVEACTIVITY_METRICS_ADDR" placeholder:"HOST:PORT" help:"${metrics_addr}"`
	LLMModel          *string `env:"LIVEACTIVITY_LLM_MODEL" placeholder:"NAME" help:"${llm_model}"`

	OpenAIKey     string `name:"openai-api-key" hidden:"" env:"OPENAI_API_KEY"`
	OpenAIBaseURL string `name:"openai-base-url" hidden:"" env:"OPENAI_BASE_URL"`
	command.Common
}

// help holds the texts of --help.
var help = kong.Vars{
	"addr":     "Listen address; port 0 picks a free port.",
	"config":   "Product file (JSON). Without it there is one product, demo, with fresh secrets.",
	"data_dir": "Folder of a database file for all data. Without it, and without Redis, all data are in memory only.",
	"redis_url": "Redis, Redis Cluster or Valkey for all data; servers on the same one act as one service. Not together " +
		"with --data-dir.",
	"redis_prefix":        "Prefix of all keys in Redis; the default is liveactivity. Only with --redis-url.",
	"activity_ttl":        "How long activity is kept, in seconds or as a duration such as 4h; at least 1s.",
	"activity_max_events": "Actions kept per user, and the most a lookup returns.",
	"log_max_bytes": "Size limit of each product's event log; the oldest events beyond it are dropped. At least 65536; " +
		"the default is 67108864 in memory, and 4294967296 in a file or in Redis.",
	"state_max_bytes": "Size limit of each product's other state; the oldest goes first, but never a registration. At " +
		"least 65536; the default is 536870912 in memory, and 4294967296 in a file or in Redis.",
	"admin_key": "Opens the admin endpoints; without it they answer 404.",
	"public_url": "The server's public URL, for the URLs it prints and registers; if it is https or a loopback address, " +
		"MCP clients can sign in with a key.",
	"heartbeat":    "Longest silence of a stream before a heartbeat, in seconds or as a duration; at least 100ms.",
	"metrics_addr": "Listen address of /metrics alone, which is then no longer served at --addr.",
	"llm_model": "Language model that replies to users in help desks and writes summaries, at $OPENAI_BASE_URL or " +
		"OpenAI, with $OPENAI_API_KEY. Without it there are no replies, and summaries are put together from the " +
		"actions.",
}

// settings are the parsed flags. Options are the service's options; the other fields are the
// command's own.
type settings struct {
	liveactivity.Options
	Addr        string
	MetricsAddr string     // serves /metrics instead of Addr; empty for none
	DataDir     string     // the folder of a persistent log; empty for none
	RedisURL    string     // of a persistent, shared log; empty for none
	RedisPrefix string     // prefix of all Redis keys; empty for the default
	demo        *demo.Demo // nil with a product file
}

// settings parses and checks the flags, together with the options that the calling program
// adds, and adds all their mistakes to wrong. A mistaken flag's value is zero, and the
// settings must not be used.
func (f flags) settings(wrong *command.Mistakes, added liveactivity.Options) settings {
	s := settings{Options: added, Addr: f.Addr}
	s.AdminKey, s.PublicURL = wrong.Given("--admin-key", f.AdminKey), wrong.Given("--public-url", f.PublicURL)
	s.DataDir, s.RedisURL = wrong.Given("--data-dir", f.DataDir), wrong.Given("--redis-url", f.RedisURL)
	s.RedisPrefix = wrong.Given("--redis-prefix", f.RedisPrefix)
	s.MetricsAddr = wrong.Given("--metrics-addr", f.MetricsAddr)
	s.Retention.TTL = wrong.Duration("--activity-ttl", f.ActivityTTL)
	s.MaxEvents = int(wrong.Count("--activity-max-events", f.ActivityMaxEvents))
	if bytes := wrong.Given("--log-max-bytes", f.LogMaxBytes); bytes != "" {
		s.Retention.MaxBytes = wrong.Count("--log-max-bytes", bytes)
	}
	if bytes := wrong.Given("--state-max-bytes", f.StateMaxBytes); bytes != "" {
		s.Retention.StateMaxBytes = wrong.Count("--state-max-bytes", bytes)
	}
	s.Heartbeat = wrong.Duration("--heartbeat", f.Heartbeat)
	if model := wrong.Given("--llm-model", f.LLMModel); model != "" {
		var err error
		s.Model, err = llm.New(model, f.OpenAIKey, f.OpenAIBaseURL)
		wrong.Check("--llm-model", err)
	}
	s.validate(wrong)
	return s
}

// validate adds all mistakes in the settings to wrong, under the names of the
// flags.
func (s settings) validate(wrong *command.Mistakes) {
	wrong.Check("--addr", serve.CheckAddr(s.Addr))
	if s.MetricsAddr != "" {
		wrong.Check("--metrics-addr", serve.CheckAddr(s.MetricsAddr))
	}
	if s.DataDir != "" && s.RedisURL != "" {
		wrong.Add(errors.New("--data-dir, --redis-url: state is kept in one place, choose one of them"))
	}
	if s.RedisPrefix != "" && s.RedisURL == "" {
		wrong.Add(errors.New("--redis-prefix: has no meaning without --redis-url"))
	}
	wrong.Add(named(s.Options.Validate()))
}

// flagOf maps options to their flags. An option that is missing here has no flag.
var flagOf = map[string]string{
	"AdminKey": "--admin-key", "PublicURL": "--public-url", "Heartbeat": "--heartbeat",
	"MaxEvents": "--activity-max-events", "Retention.TTL": "--activity-ttl",
	"Retention.MaxBytes": "--log-max-bytes", "Retention.StateMaxBytes": "--state-max-bytes",
}

// named translates mistakes in options to their flags' names. A mistake in an option without a
// flag, which the calling program has set, stays unchanged.
func named(err error) error {
	all := options.Split(err)
	for i, err := range all {
		if mistake, ok := errors.AsType[*option.Error](err); ok && flagOf[mistake.Option] != "" {
			all[i] = fmt.Errorf("%s: %s", flagOf[mistake.Option], mistake.Problem)
		}
	}
	return errors.Join(all...)
}
