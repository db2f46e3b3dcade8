package durability_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// holderVar makes this program a holder: a process that works under a lease.
// Its value is the holder's configuration.
const holderVar = "LIVEACTIVITY_LEASE_HOLDER"

// holder works whenever it has the lease. What it does it writes to its
// standard output, a [deed] to a line.
type holder struct {
	Name     string        `json:"name"`
	RedisURL string        `json:"redis_url"`
	TTL      time.Duration `json:"ttl"`

	log *redislog.Log
}

// The names of what holders work at.
const (
	jobProduct = "jobs"
	jobLease   = "job"
	jobCounter = "counter"
)

// deed is one thing that a holder has done.
type deed struct {
	what  string // one of those below
	token uint64 // under which
	n     uint64 // the counter, for what was written
}

// What holders do.
const (
	deedHeld    = "held"    // got the lease
	deedWrote   = "wrote"   // wrote the next number
	deedRefused = "refused" // found that the lease was lost
)

func (d deed) String() string { return fmt.Sprintf("%s %d %d", d.what, d.token, d.n) }

// parseDeed reads what String wrote.
func parseDeed(line string) (d deed, err error) {
	_, err = fmt.Sscanf(line, "%s %d %d", &d.what, &d.token, &d.n)
	return d, err
}

// numbered is what holders append: the next number, and under which token.
type numbered struct {
	Holder string `json:"holder"`
	Token  uint64 `json:"token"`
	N      uint64 `json:"n"`
}

// runHolder is the program of a holder. It works until it is killed, or its
// standard input ends with the process that started it.
func runHolder(config string) int {
	var h holder
	if err := json.Unmarshal([]byte(config), &h); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if h.log, err = redislog.Open(h.RedisURL, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // it is never written to
	}()
	go func() { _ = h.log.Run(ctx, nil) }() // returns nil
	if err := document.WithLease(ctx, h.log.Documents(), jobProduct, jobLease, h.TTL, h.work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// pace is how long a holder waits between two numbers.
const pace = 3 * time.Millisecond

// afterwards is how many numbers a holder tries to write when it has lost its
// lease. They come through only while it is free.
const afterwards = 20

// work writes numbers while the lease lasts, and tries to go on when it is over.
func (h *holder) work(ctx context.Context, lease *document.Lease) error {
	token := uint64(lease.Token())
	fmt.Println(deed{deedHeld, token, 0})
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ctx.Err() == nil {
		h.write(lease)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	if !errors.Is(context.Cause(ctx), document.ErrLost) {
		return nil
	}
	for range afterwards {
		h.write(lease)
	}
	return nil
}

// write appends the next number and moves the counter, in one step that needs
// the lease. A failure leaves open whether it happened.
func (h *holder) write(lease *document.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	docs, err := h.log.Documents().Get(ctx, jobProduct, jobCounter)
	if err != nil {
		return
	}
	n, _ := strconv.ParseUint(string(docs[0].Value), 10, 64) // zero before the first
	n++
	token := uint64(lease.Token())
	data, _ := json.Marshal(numbered{h.Name, token, n}) // numbers and a name always encode
	err = h.log.Append(ctx, jobProduct, []eventlog.Entry{{SessionID: jobLease, Data: data}},
		lease.Check(), document.Put(docs[0], []byte(strconv.FormatUint(n, 10)), 0))
	var conflict *document.ConflictError
	switch {
	case err == nil:
		fmt.Println(deed{deedWrote, token, n})
	case errors.As(err, &conflict) && conflict.Name == lease.Check().Name:
		fmt.Println(deed{deedRefused, token, n})
	}
}
