package ledger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"minsep/internal/accounting"
	"minsep/internal/store"
)

// Names of the files of a ledger.
const (
	ProtocolFile = "protocol.json"
	UnitsFile    = "units.log"
)

// The folder and its files have public modes, as the certificate has.
const (
	folderMode fs.FileMode = 0o755
	fileMode   fs.FileMode = 0o644
)

// ErrOtherProtocol says that a folder holds the ledger of another protocol, or units without one.
var ErrOtherProtocol = errors.New("the folder holds another protocol")

// ErrLocked says that another process has the ledger open.
var ErrLocked = errors.New("in use by another process")

// background is the context of everything but [Read]. Writes are not cancelled; requests to object
// stores end by their own limits.
var background = context.Background()

// Limits of reading, in bytes.
const (
	maxProtocol = 8 << 30 // a protocol may hold a whole matrix
	maxLog      = 4 << 30 // in an object store the log is one object, read into memory
	maxLine     = 2 << 20 // one line of a log
)

// CorruptError is damage of a log that a crash cannot have caused.
type CorruptError struct {
	File string // name of the log
	Line int    // number of the line, from 1
	Err  error  // the fault of the line
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf(
		"%s, line %d: corrupt: %v: put a copy of the file back, or remove this line and all after it; `minsep account` then draws the same samples again",
		e.File,
		e.Line,
		e.Err,
	)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Ledger is an open ledger. It is safe for concurrent use by one process. A ledger that is open for
// writing is locked against other writers.
type Ledger struct {
	mutex    sync.Mutex
	contents *contents
	log      store.Log // nil if opened to be read, or closed
	fault    error     // of a failed write, after which nothing more is written
	torn     bool      // opened to be read, with a part of a line at the end
}

// Create makes the ledger of a protocol in dir, and dir itself if need be. If there is a ledger of
// the same protocol already it is opened; of another protocol, the error wraps ErrOtherProtocol.
// The protocol is stored durably when Create returns.
func Create(dir string, p *accounting.Protocol) (*Ledger, error) {
	data, err := p.Encode()
	if err != nil {
		return nil, err
	}
	if err := store.MkdirAll(background, dir, folderMode); err != nil {
		return nil, err
	}
	path := store.Join(dir, ProtocolFile)
	old, err := store.ReadText(background, path, maxProtocol)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := store.Stat(background, store.Join(dir, UnitsFile)); err == nil {
			return nil, fmt.Errorf("%w: there are units without a %s", ErrOtherProtocol, ProtocolFile)
		}
		if err := store.WriteFile(background, path, store.Options{Mode: fileMode, New: true}, data); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !bytes.Equal(old, data):
		return nil, fmt.Errorf("%w: %s", ErrOtherProtocol, path)
	}
	return Open(dir)
}

// Open opens the ledger in dir for writing, and cuts off a last line that a crash has torn. The
// error wraps ErrLocked if another process has it open.
func Open(dir string) (*Ledger, error) {
	b, err := readProtocol(background, dir)
	if err != nil {
		return nil, err
	}
	l := &Ledger{contents: b}
	var damage error
	replay := func(r io.Reader) (whole int64, err error) { whole, damage = b.replay(r); return whole, damage }
	if l.log, err = store.OpenLog(background, store.Join(dir, UnitsFile), fileMode, maxLog, replay); err != nil {
		if damage != nil {
			return nil, damage
		}
		return nil, logFault(err)
	}
	return l, nil
}

// InMemory returns a ledger of a protocol that is in no folder, and ends with the process.
func InMemory(p *accounting.Protocol) (*Ledger, error) {
	b, err := newContents(p)
	return &Ledger{contents: b, log: noLog{}}, err
}

// noLog is the log of a ledger that is in memory only.
type noLog struct{}

func (noLog) Append([][]byte) error { return nil }

func (noLog) Close() error { return nil }

// logFault is the error for a log that cannot be opened or written.
func logFault(err error) error {
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	return err
}

// Read opens the ledger in dir for reading, without a lock and without changing anything.
func Read(ctx context.Context, dir string) (*Ledger, error) {
	b, err := readProtocol(ctx, dir)
	if err != nil {
		return nil, err
	}
	f, err := store.Open(ctx, store.Join(dir, UnitsFile))
	if errors.Is(err, fs.ErrNotExist) { // no unit is finished yet
		return &Ledger{contents: b}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	whole, err := b.replay(store.Reader(f))
	if err != nil {
		return nil, err
	}
	return &Ledger{contents: b, torn: whole < f.Size()}, nil
}

func readProtocol(ctx context.Context, dir string) (*contents, error) {
	data, err := store.ReadText(ctx, store.Join(dir, ProtocolFile), maxProtocol)
	if err != nil {
		return nil, err
	}
	p, err := accounting.ParseProtocol(data)
	if err != nil {
		return nil, err
	}
	return newContents(p)
}

// replay adds the lines of a log, and returns the length in bytes of the lines that are whole. Only
// the last line may be torn; any other damage is a [*CorruptError].
func (b *contents) replay(r io.Reader) (whole int64, err error) {
	lines := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return whole, &CorruptError{UnitsFile, n, errors.New("is too long")}
		case err != nil:
			return whole, err
		}
		e, err := parseLine(line[:len(line)-1])
		size := int64(len(line))
		if err == nil {
			_, err = b.add(e)
		} else if _, end := lines.Peek(1); end == io.EOF {
			return whole, nil
		}
		if err != nil {
			return whole, &CorruptError{UnitsFile, n, err}
		}
		whole += size
	}
}

// Torn reports whether a log that was opened for reading ends in a part of a line. A crash leaves
// such a part, and opening the ledger to go on removes it: beside a certificate there is none.
func (l *Ledger) Torn() bool { return l.torn }

// Protocol returns the protocol. The caller must not change it.
func (l *Ledger) Protocol() *accounting.Protocol { return l.contents.protocol }

// Configuration is the SHA-256 of the protocol. Every unit carries it.
func (l *Ledger) Configuration() string { return l.contents.hash }

// Spent is the protocol with its own failure probability, as a later protocol counts it.
func (l *Ledger) Spent() accounting.Earlier {
	spent := accounting.Earlier{ProtocolSHA256: l.Configuration()}
	for _, point := range l.Protocol().Points {
		spent.FailureProbability += point.FailureProbability
	}
	return spent
}

// Entry is a finished unit.
type Entry struct {
	Unit   Unit   `json:"unit"`   // range of samples
	Result Result `json:"result"` // sums of these samples
}

// AddAll records finished units; they are stored durably when it returns. A unit that is there
// already with the same result is skipped. A unit that does not fit the protocol or the other units
// is a [*RefusedError]: neither it nor the entries after it are recorded. Where the units cannot be
// stored, none of them counts, and the ledger takes no more.
//
// In an object store the log is one object that is written anew each time, so it is better to
// record many units at once. The error wraps ErrLocked if another process has written that object
// since.
func (l *Ledger) AddAll(entries []Entry) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.log == nil {
		return errors.New("closed, or opened to be read")
	}
	if l.fault != nil {
		return l.fault
	}
	var lines [][]byte
	var added []entry
	var refused error
	for _, done := range entries {
		e := entry{done.Unit, done.Result}
		line, err := e.line()
		if err != nil {
			refused = err
			break
		}
		fresh, err := l.contents.add(e)
		if err != nil {
			refused = err
			break
		}
		if fresh {
			lines, added = append(lines, line), append(added, e)
		}
	}
	if len(lines) > 0 {
		if err := l.log.Append(lines); err != nil {
			for _, e := range added {
				l.contents.remove(e)
			}
			l.fault = logFault(err)
			return l.fault
		}
	}
	return refused
}

// Missing returns the samples of a candidate that are not done yet, as units of at most size
// samples. Units do not cross multiples of size.
func (l *Ledger) Missing(candidate int, size uint64) (units []Unit) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := range l.contents.protocol.Candidates[candidate].Trials {
		t := l.contents.trials[[2]int{candidate, i}]
		next := uint64(0)
		gap := func(end uint64) {
			for next < end {
				stop := min(end, (next/size+1)*size)
				units = append(
					units,
					Unit{l.contents.hash, Verify, candidate, i, next, stop - next, l.contents.protocol.KernelID},
				)
				next = stop
			}
		}
		for _, e := range t.entries {
			gap(e.First)
			next = e.First + e.Count
		}
		gap(t.spec.Samples)
	}
	return units
}

// Units yields the finished units with their results, ordered by candidate, trial and first sample.
func (l *Ledger) Units(yield func(Unit, Result) bool) {
	l.mutex.Lock()
	var all []entry
	for c, candidate := range l.contents.protocol.Candidates {
		for i := range candidate.Trials {
			all = append(all, l.contents.trials[[2]int{c, i}].entries...)
		}
	}
	l.mutex.Unlock()
	for _, e := range all {
		if !yield(e.Unit, e.Result) {
			return
		}
	}
}

// Tallies returns the sums of the finished trials.
func (l *Ledger) Tallies() (tallies []accounting.Tally) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for c, candidate := range l.contents.protocol.Candidates {
		for i, spec := range candidate.Trials {
			t := l.contents.trials[[2]int{c, i}]
			if spec.Samples == 0 || t.done != spec.Samples {
				continue
			}
			tally := accounting.Tally{Candidate: c, Trial: i, Count: t.done}
			for _, e := range t.entries {
				tally.Sum.Merge(e.Result.Total())
			}
			tallies = append(tallies, tally)
		}
	}
	return tallies
}

// Certificate makes the certificate of the protocol from the trials that are complete.
func (l *Ledger) Certificate() (*accounting.Certificate, error) {
	return l.contents.protocol.Certificate(l.Tallies())
}

// CertificateFile returns the bytes of the certificate.
func (l *Ledger) CertificateFile() ([]byte, error) {
	c, err := l.Certificate()
	if err != nil {
		return nil, err
	}
	return c.Encode()
}

// Close ends writing and unlocks the ledger. It may be called more than once.
func (l *Ledger) Close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.log == nil {
		return nil
	}
	err := l.log.Close()
	l.log = nil
	return err
}
