package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"minsep/accounting"
)

// Names of the files of a ledger.
const (
	ProtocolFile = "protocol.json"
	UnitsFile    = "units.log"
)

// ErrOtherProtocol says that a folder holds the ledger of another protocol.
var ErrOtherProtocol = errors.New("ledger: the folder holds another protocol")

// ErrLocked says that another process has the ledger open.
var ErrLocked = errors.New("ledger: in use by another process")

// CorruptError is damage that no crash explains.
type CorruptError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("ledger: %s, line %d: corrupt: %v", e.File, e.Line, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Ledger is an open ledger. It is safe for concurrent use by one process; other processes are kept out.
type Ledger struct {
	mutex sync.Mutex
	book  *book
	file  *os.File // nil for one opened to be read
	size  int64
	fault error // after a write that failed nothing more is written
}

// Create makes the ledger of a protocol in dir, and the folder if need be, or opens it if it is there already: then
// the protocol must be the same, or the error wraps ErrOtherProtocol. The protocol is on disk when Create returns.
func Create(dir string, p *accounting.Protocol) (*Ledger, error) {
	data, err := p.Encode()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	path := filepath.Join(dir, ProtocolFile)
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, UnitsFile)); err == nil {
			return nil, fmt.Errorf("%w: there are units without a %s", ErrOtherProtocol, ProtocolFile)
		}
		if err := writeWhole(path, data); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("ledger: %w", err)
	case !bytes.Equal(old, data):
		return nil, fmt.Errorf("%w: %s", ErrOtherProtocol, path)
	}
	return Open(dir)
}

// Open opens the ledger in dir to go on with it. What a crash has left of a last line is cut off.
func Open(dir string) (*Ledger, error) {
	b, err := readProtocol(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, UnitsFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Ledger{book: b, file: f}
	if err := l.start(dir); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *Ledger) start(dir string) error {
	if err := lock(l.file); err != nil {
		return fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	data, err := io.ReadAll(l.file)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	whole, err := l.book.replay(data)
	if err != nil {
		return err
	}
	l.size = int64(whole)
	if whole < len(data) {
		if err := l.file.Truncate(l.size); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	if err := errors.Join(l.file.Sync(), syncDir(dir)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Read opens the ledger in dir to look at it, without changing or locking anything.
func Read(dir string) (*Ledger, error) {
	b, err := readProtocol(dir)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, UnitsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if _, err := b.replay(data); err != nil {
		return nil, err
	}
	return &Ledger{book: b}, nil
}

func readProtocol(dir string) (*book, error) {
	data, err := os.ReadFile(filepath.Join(dir, ProtocolFile))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	p, err := accounting.ParseProtocol(data)
	if err != nil {
		return nil, err
	}
	return newBook(p)
}

// replay adds the log's lines and returns the length of the part that is whole. Only the last line may be torn.
func (b *book) replay(data []byte) (whole int, err error) {
	for n := 1; whole < len(data); n++ {
		end := bytes.IndexByte(data[whole:], '\n')
		if end < 0 {
			return whole, nil
		}
		e, err := parseLine(data[whole : whole+end])
		if err == nil {
			_, err = b.add(e)
		} else if whole+end+1 == len(data) {
			return whole, nil
		}
		if err != nil {
			return whole, &CorruptError{UnitsFile, n, err}
		}
		whole += end + 1
	}
	return whole, nil
}

// Protocol returns the protocol. It must not be changed.
func (l *Ledger) Protocol() *accounting.Protocol { return l.book.protocol }

// Configuration is the SHA-256 of the protocol, which units carry.
func (l *Ledger) Configuration() string { return l.book.hash }

// Add records a finished unit; it is on disk when Add returns. A unit that is there already with the same result is no error; anything that does not
// fit the protocol or the other units is a RefusedError.
func (l *Ledger) Add(u Unit, r Result) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.file == nil {
		return errors.New("ledger: closed, or opened to be read")
	}
	if l.fault != nil {
		return l.fault
	}
	e := entry{u, r}
	line, err := e.line()
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	fresh, err := l.book.add(e)
	if err != nil || !fresh {
		return err
	}
	if _, err = l.file.WriteAt(line, l.size); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.fault = fmt.Errorf("ledger: %w", err)
		return l.fault
	}
	l.size += int64(len(line))
	return nil
}

// Missing returns the units that remain of a candidate, of at most size samples each, cut at multiples of size.
func (l *Ledger) Missing(candidate int, size uint64) (units []Unit) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i := range l.book.protocol.Candidates[candidate].Trials {
		t := l.book.trials[[2]int{candidate, i}]
		next := uint64(0)
		gap := func(end uint64) {
			for next < end {
				stop := min(end, (next/size+1)*size)
				units = append(units, Unit{l.book.hash, Verify, candidate, i, next, stop - next, l.book.protocol.KernelID})
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

// Progress returns how many samples of a candidate are done, of how many.
func (l *Ledger) Progress(candidate int) (done, of uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i, trial := range l.book.protocol.Candidates[candidate].Trials {
		done += l.book.trials[[2]int{candidate, i}].done
		of += trial.Samples
	}
	return done, of
}

// Units returns the finished units with their results, by candidate, trial and first sample.
func (l *Ledger) Units(yield func(Unit, Result) bool) {
	l.mutex.Lock()
	var all []entry
	for c, candidate := range l.book.protocol.Candidates {
		for i := range candidate.Trials {
			all = append(all, l.book.trials[[2]int{c, i}].entries...)
		}
	}
	l.mutex.Unlock()
	for _, e := range all {
		if !yield(e.Unit, e.Result) {
			return
		}
	}
}

// Tallies adds up the trials whose samples are all done; others are left out.
func (l *Ledger) Tallies() (tallies []accounting.Tally) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for c, candidate := range l.book.protocol.Candidates {
		for i, spec := range candidate.Trials {
			t := l.book.trials[[2]int{c, i}]
			if spec.Samples == 0 || t.done != spec.Samples {
				continue
			}
			tally := accounting.Tally{Candidate: c, Trial: i, Count: t.done}
			for _, e := range t.entries {
				tally.Sum.Merge(e.Result.Sum)
			}
			tallies = append(tallies, tally)
		}
	}
	return tallies
}

// Certificate is what the protocol and the finished trials certify.
func (l *Ledger) Certificate() (*accounting.Certificate, error) {
	return l.book.protocol.Certificate(l.Tallies())
}

// Import adds every unit of another ledger of the same protocol, such as one from another machine.
func (l *Ledger) Import(other *Ledger) error {
	for u, r := range other.Units {
		if err := l.Add(u, r); err != nil {
			return err
		}
	}
	return nil
}

// Close ends writing.
func (l *Ledger) Close() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// writeWhole writes a file that appears whole or not at all.
func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".minsep-tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // in vain after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
