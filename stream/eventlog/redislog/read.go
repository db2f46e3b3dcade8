package redislog

import (
	"context"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// Bounds of one read from Redis.
const (
	fetchEntries = 512
	fetchBytes   = 1 << 20 // of data, for the tail; exceeded by one entry at most
	maxErasures  = 64      // of up to 60 KiB each
)

// Read implements [eventlog.Log]. A cursor near the end is served from memory, any other from
// Redis. It applies erasures only to dst.
func (l *Log) Read(ctx context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	p := l.product(productID)
	n, err := l.readAsAppended(ctx, p, after, dst)
	p.erased.Apply(dst[:n])
	return n, err
}

// readAsAppended is Read without erasures. It looks in memory, and looks again after each fetch
// that it has waited for, until it finds an answer.
func (l *Log) readAsAppended(ctx context.Context, p *product, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	began := time.Now()
	for {
		v := p.look(after, dst, began)
		switch {
		case v.err != nil || v.n > 0 || v.done:
			return v.n, v.err
		case !v.fetch:
			n, err := p.readBeside(ctx, after, dst)
			if v.closed && n == 0 && err == nil { // Redis has nothing after the cursor, in the tail or beside it
				err = eventlog.ErrClosed
			}
			return n, err
		}
		err := p.fetch(ctx, after)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil && v.closed: // no reader should wait for Redis to recover
			return 0, eventlog.ErrClosed
		case err != nil:
			return 0, err
		}
	}
}

// view is the result of a read from memory: n entries, done, err or fetch. It has none of them for a
// cursor that memory knows nothing of.
type view struct {
	n      int
	done   bool // there is nothing to read
	fetch  bool // Redis must be asked
	err    error
	closed bool // the log is closed
}

// look reads from memory, for a reader whose call began at began.
//
//	closed, the cursor is at the end   ErrClosed
//	dst has no room                    done
//	the cursor is before the tail,
//	or after all known entries         nothing: the reader reads from Redis
//	entries come after it              these
//	it is at the end, as of began      done
//	otherwise                          a fetch
//
// The zero cursor is at the end if there never was an entry. A cursor after the newest known
// ID belongs to an entry that Redis has lost, and is told to Redis by the read. look takes the
// lock.
func (p *product) look(after eventlog.ID, dst []eventlog.Entry, began time.Time) view {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	closed := p.tail.Closed()
	if closed && p.end == nil && p.isCurrent(began) {
		// Entries that others append from now on are not read here.
		end := eventlog.Later(p.known, p.tail.Bounds().Newest)
		p.end = &end
	}
	if p.end != nil && after.Compare(*p.end) >= 0 {
		return view{err: eventlog.ErrClosed}
	}
	if len(dst) == 0 {
		return view{done: true}
	}
	if p.started {
		n, ok := p.tail.Read(after, dst)
		if !ok && after == (eventlog.ID{}) && p.known == p.unused && p.isCurrent(began) {
			return p.atEnd()
		}
		if n > 0 || !ok || after.Compare(p.known) > 0 {
			return view{n: n, closed: closed}
		}
		p.watched = true
		if p.known.Compare(eventlog.Later(after, p.tail.Bounds().Newest)) <= 0 && p.isCurrent(began) {
			return p.atEnd()
		}
	}
	return view{fetch: true, closed: closed}
}

// isCurrent reports whether there was nothing newer than the known ID when the reader began, or
// else a message will announce it. The first holds if Redis was asked after that; the second
// holds if Redis was asked since the current subscription began.
func (p *product) isCurrent(began time.Time) bool {
	if !p.checkedAt.Before(began) {
		return true
	}
	since := p.log.following.Load()
	return since != nil && p.checkedAt.After(*since)
}

// atEnd is the view of a reader that has read everything.
func (p *product) atEnd() view {
	if p.tail.Closed() {
		return view{err: eventlog.ErrClosed}
	}
	return view{done: true}
}

// fetch reads the new entries from Redis, for all readers that wait, and then look again: a product
// has at most one fetch in flight, which goes on when a reader has gone. eval bounds its time.
func (p *product) fetch(ctx context.Context, after eventlog.ID) error {
	select {
	case r := <-p.fetches.DoChan("", func() (any, error) { return nil, p.refresh(context.WithoutCancel(ctx), after) }):
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refresh runs a fetch, and takes its entries into the tail.
//
//	the tail reaches the cursor           the entries extend it
//	it goes beyond, and there is a gap    entries came in the meantime, and the tail stays
//	there is a gap                        the tail begins after it
//	the cursor is in the log              the tail begins there
//	the cursor is after every entry       a first tail begins at the newest; another one stays
func (p *product) refresh(ctx context.Context, after eventlog.ID) error {
	began := time.Now()
	part, err := p.read(ctx, after, fetchEntries, fetchBytes)
	if err != nil {
		return err
	}
	defer p.log.balance()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checked(part.newest, began)
	p.lose(part.lost)
	newest := p.tail.Bounds().Newest
	switch {
	case p.started && newest.Compare(after) >= 0 && part.gap == nil:
		p.extend(part.entries)
	case p.started && newest.Compare(after) > 0: // the tail stays
	case part.gap != nil:
		p.restart(part.gap.TrimmedTo)
	case after.Compare(part.newest) <= 0:
		p.restart(eventlog.Later(after, part.trimmedTo))
		p.extend(part.entries)
	case !p.started: // the cursor lies in the future
		p.restart(part.newest)
	}
	p.forgetUpTo(part.trimmedTo)
	return nil
}

// readBeside reads entries that are not in memory, for one reader, and does not add them to the
// tail. If there are none after the zero cursor, it records that no entry ever existed.
func (p *product) readBeside(ctx context.Context, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	part, err := p.read(ctx, after, len(dst), eventlog.ReadBytes)
	if err != nil {
		return 0, err
	}
	p.learn(part.newest, part.trimmedTo, part.lost)
	if part.gap != nil {
		return 0, part.gap
	}
	if len(part.entries) == 0 && after == (eventlog.ID{}) {
		p.mu.Lock()
		p.unused = part.newest
		p.mu.Unlock()
	}
	return copy(dst, part.entries), nil
}

// portion is a snapshot of a part of the log in Redis.
type portion struct {
	newest    eventlog.ID
	trimmedTo eventlog.ID
	lost      []lostRange
	gap       *eventlog.GapError // if set, there are no entries
	entries   []eventlog.Entry
}

// farthest is a cursor after every entry: the numbers of IDs stay below 2^53, the limit of
// exact numbers in Lua.
var farthest = eventlog.ID{Milli: 1 << 53}

// read reads at most n entries after the cursor from Redis, until their data have reached a
// number of bytes. For n = 0 it reads only the bounds, and always returns a gap. It passes the
// IDs that this process knows to Redis, and adds the erasures after the newest one known here. It
// reads again while there may be more of them.
func (p *product) read(ctx context.Context, after eventlog.ID, n, bytes int) (portion, error) {
	if after.Compare(farthest) > 0 {
		after = farthest
	}
	known, held := p.memory()
	p.mu.Lock()
	erased := p.erasedTo
	p.mu.Unlock()
	reply, err := p.ask(ctx, readScript, []string{p.keys.of("meta"), p.keys.of("log")},
		milliseconds(p.log.opts.Retention.TTL), after.String(), n, bytes, known.String(), held.String(), erased.String(),
		maxErasures)
	if err != nil {
		return portion{}, failed("read", err)
	}
	if err := p.erase(reply[5]); err != nil {
		return portion{}, err
	}
	if page, _ := reply[5].([]any); len(page) == 2*maxErasures {
		return p.read(ctx, after, n, bytes)
	}
	var result portion
	if result.newest, err = parseID(reply[0]); err != nil {
		return portion{}, err
	}
	if result.trimmedTo, err = parseID(reply[1]); err != nil {
		return portion{}, err
	}
	if result.lost, err = parseRanges(reply[4]); err != nil {
		return portion{}, err
	}
	if reply[2] != nil {
		result.gap = &eventlog.GapError{TrimmedTo: result.trimmedTo}
		result.gap.Oldest, err = parseID(reply[2])
		return result, err
	}
	values, _ := reply[3].([]any)
	result.entries, err = parseEntries(values)
	return result, err
}

// erase adds the erasures of a reply, which has the ID and the data of each, in order. It
// takes the lock.
func (p *product) erase(reply any) error {
	values, _ := reply.([]any)
	for i := 0; i+1 < len(values); i += 2 {
		id, err := parseID(values[i])
		if err != nil {
			return err
		}
		data, _ := values[i+1].(string)
		e := eventlog.Entry{Data: []byte(data)}
		e.Encode(id)
		p.erased.Add(e)
		p.mu.Lock()
		p.erasedTo = eventlog.Later(p.erasedTo, id)
		p.mu.Unlock()
	}
	return nil
}

// parseID reads an ID of a reply; nil and "" mean the zero ID.
func parseID(value any) (eventlog.ID, error) {
	text, _ := value.(string)
	if text == "" {
		return eventlog.ID{}, nil
	}
	id, err := eventlog.ParseID(text)
	return id, failed("read", err)
}

// parseEntries reads the entries of a reply, which has the ID, session, data and
// keys of each.
func parseEntries(values []any) ([]eventlog.Entry, error) {
	entries := make([]eventlog.Entry, len(values)/4)
	for i := range entries {
		id, err := parseID(values[4*i])
		if err != nil {
			return nil, err
		}
		session, _ := values[4*i+1].(string)
		data, ok := values[4*i+2].(string)
		keys, _ := values[4*i+3].(string)
		if !ok {
			return nil, fmt.Errorf("redislog: read: entry %s has no data", id)
		}
		entries[i] = eventlog.Entry{SessionID: session, Keys: engine.ParseKeys(keys), Data: []byte(data)}
		entries[i].Encode(id)
	}
	return entries, nil
}

// Bounds implements [eventlog.Log]. They are always read from Redis.
func (l *Log) Bounds(ctx context.Context, productID string) (eventlog.Bounds, error) {
	p := l.product(productID)
	part, err := p.read(ctx, eventlog.ID{}, 0, 0)
	if err != nil {
		return eventlog.Bounds{}, err
	}
	b := eventlog.Bounds{TrimmedTo: part.trimmedTo, Oldest: part.gap.Oldest, Newest: part.newest}
	if b.Oldest == (eventlog.ID{}) {
		b.TrimmedTo = b.Newest
	}
	if last := len(part.lost) - 1; last >= 0 {
		b.Lost = part.lost[last].to
	}
	p.learn(b.Newest, b.TrimmedTo, part.lost)
	return b, nil
}
