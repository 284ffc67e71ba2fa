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
	Torn bool   // it is the last line and has no end: its write was cut off, and its samples count as not drawn
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

// Ledger is an open ledger. It is safe for concurrent use by one process.
type Ledger struct {
	mutex    sync.Mutex
	contents *contents
	save     func() error // stores the contents durably; nil if opened to be read
	version  string       // of the object that the log is, as it was last read or written; "" while there is none, and for a local file
	fault    error        // of a failed write, after which nothing more is written
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

// Open opens the ledger in dir for writing, without a last line that was cut off. Whoever writes a ledger in a local folder locks the run
// directory.
func Open(dir string) (*Ledger, error) {
	l, err := Read(background, dir)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.Torn {
		err = nil
	}
	if err == nil {
		l.save = func() error { return l.write(store.Join(dir, UnitsFile)) }
	}
	return l, err
}

// InMemory returns a ledger of a protocol that is in no folder, and ends with the process.
func InMemory(p *accounting.Protocol) (*Ledger, error) {
	b, err := newContents(p)
	return &Ledger{contents: b, save: func() error { return nil }}, err
}

// Read opens the ledger in dir for reading.
func Read(ctx context.Context, dir string) (*Ledger, error) {
	b, err := readProtocol(ctx, dir)
	if err != nil {
		return nil, err
	}
	l := &Ledger{contents: b}
	f, err := store.Open(ctx, store.Join(dir, UnitsFile))
	if errors.Is(err, fs.ErrNotExist) { // no unit is finished yet
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l.version = f.Version()
	return l, b.replay(store.Reader(f))
}

// write replaces the log by one of all finished units. Nobody else may have replaced the object since
// it was last read or written here.
func (l *Ledger) write(path string) error {
	var log []byte
	for u, r := range l.contents.units {
		line, err := entry{u, r}.line()
		if err != nil {
			return err
		}
		log = append(log, line...)
	}
	shared := store.Shared(path)
	o := store.Options{Mode: fileMode, New: shared && l.version == "", Replaces: l.version}
	err := store.WriteFile(background, path, o, log)
	if err != nil || !shared {
		return err
	}
	stored, version, err := store.ReadVersion(background, path, maxLog)
	if err == nil && !bytes.Equal(stored, log) {
		err = store.ErrChanged
	}
	l.version = version
	return err
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

// replay adds the lines of a log. Damage is a [*CorruptError].
func (b *contents) replay(r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			return &CorruptError{UnitsFile, n, errors.New("is too long"), false}
		case err != nil && err != io.EOF:
			return err
		}
		last := err == io.EOF
		e, err := parseLine(bytes.TrimSuffix(line, []byte("\n")))
		torn := last && err != nil
		if err == nil {
			_, err = b.add(e)
		}
		if err != nil {
			return &CorruptError{UnitsFile, n, err, torn}
		}
	}
}

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
// The log is written anew each time, so it is better to record many units at once. In an
// object store the error wraps [store.ErrChanged] if another process has written it since.
func (l *Ledger) AddAll(entries []Entry) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.save == nil {
		return errors.New("opened to be read")
	}
	if l.fault != nil {
		return l.fault
	}
	var added []entry
	var refused error
	for _, done := range entries {
		e := entry{done.Unit, done.Result}
		var fresh bool
		if fresh, refused = l.contents.add(e); refused != nil {
			break
		}
		if fresh {
			added = append(added, e)
		}
	}
	if len(added) > 0 {
		if l.fault = l.save(); l.fault != nil {
			for _, e := range added {
				l.contents.remove(e)
			}
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
	defer l.mutex.Unlock()
	l.contents.units(yield)
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
