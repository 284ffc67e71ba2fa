package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/strictjson"
)

// Verify is the purpose of the units of a verification.
const Verify = "verify"

// Unit is a range of samples of one trial of a protocol.
type Unit struct {
	Configuration string `json:"configuration"` // SHA-256 of the protocol, 64 hexadecimal digits
	Purpose       string `json:"purpose"`       // [Verify]
	Candidate     int    `json:"candidate"`     // index into the protocol's candidates
	Trial         int    `json:"trial"`         // index into the candidate's trials; gives the point and the direction
	First         uint64 `json:"first"`         // index of the first sample, from 0
	Count         uint64 `json:"count"`         // number of samples, at least 1
	KernelID      string `json:"kernel_id"`     // the arithmetic, see [montecarlo.KernelID]; must be the protocol's
}

// BlockSize is the number of samples of a block. Each block has a sum of its own, so that a reader
// can compute a few of them again.
const BlockSize = 256

// Result holds the sums over the blocks of a unit, as integers: of each value over the trial's bound,
// rounded upward. The last block may have fewer than BlockSize samples.
type Result struct {
	Sums []montecarlo.Sum `json:"sums"`
}

// Total is the sum over all samples.
func (r Result) Total() (total montecarlo.Sum) {
	for _, s := range r.Sums {
		total.Merge(s)
	}
	return total
}

// Blocks yields the ranges of the unit's blocks, in the order of their sums.
func (u Unit) Blocks(yield func(first, count uint64) bool) {
	for done := uint64(0); done < u.Count; done += BlockSize {
		if !yield(u.First+done, min(BlockSize, u.Count-done)) {
			return
		}
	}
}

// entry is one line of the log.
type entry struct {
	Unit
	Result Result `json:"result"`
}

// checksumDigits is the length of a line's checksum: the first 8 bytes of the SHA-256 of its JSON,
// in hexadecimal.
const checksumDigits = 16

// line returns the entry as a line of the log: a checksum, a space, JSON, a newline.
func (e entry) line() ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	out := make([]byte, 0, checksumDigits+1+len(b)+1)
	out = hex.AppendEncode(out, sum[:checksumDigits/2])
	out = append(out, ' ')
	out = append(out, b...)
	return append(out, '\n'), nil
}

// parseLine reads a line without its newline, and verifies its checksum.
func parseLine(b []byte) (e entry, err error) {
	if len(b) <= checksumDigits || b[checksumDigits] != ' ' {
		return e, fmt.Errorf("no checksum")
	}
	body := b[checksumDigits+1:]
	sum := sha256.Sum256(body)
	if hex.EncodeToString(sum[:checksumDigits/2]) != string(b[:checksumDigits]) {
		return e, fmt.Errorf("wrong checksum")
	}
	err = strictjson.Unmarshal(body, &e)
	return e, err
}

// RefusedError says why a unit does not belong in a ledger.
type RefusedError struct {
	Unit   Unit   // that was refused
	Reason string // a clause that follows a colon
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("unit of candidate %d, trial %d, samples %d to %d: refused: %s",
		e.Unit.Candidate, e.Unit.Trial, e.Unit.First, e.Unit.First+e.Unit.Count, e.Reason)
}

// contents is a ledger in memory.
type contents struct {
	protocol *accounting.Protocol
	hash     string
	trials   map[[2]int]*trial
}

// trial holds the finished units of one trial, ordered by their first samples.
type trial struct {
	spec    accounting.Trial
	entries []entry
	done    uint64 // samples in entries
}

func newContents(p *accounting.Protocol) (*contents, error) {
	hash, err := p.SHA256()
	if err != nil {
		return nil, err
	}
	b := &contents{protocol: p, hash: hash, trials: map[[2]int]*trial{}}
	for c, candidate := range p.Candidates {
		for t, spec := range candidate.Trials {
			b.trials[[2]int{c, t}] = &trial{spec: spec}
		}
	}
	return b, nil
}

// add takes an entry, or returns a [*RefusedError]. fresh is false if the same entry is there
// already.
func (b *contents) add(e entry) (fresh bool, err error) {
	refuse := func(format string, args ...any) (bool, error) {
		return false, &RefusedError{e.Unit, fmt.Sprintf(format, args...)}
	}
	t := b.trials[[2]int{e.Candidate, e.Trial}]
	switch {
	case e.Configuration != b.hash:
		return refuse("it belongs to another configuration")
	case e.Purpose != Verify:
		return refuse("its purpose is %q, not %q", e.Purpose, Verify)
	case e.KernelID != b.protocol.KernelID:
		return refuse(
			"it is of kernel %q, the protocol's is %q: results of different kernels are not mixed",
			e.KernelID,
			b.protocol.KernelID,
		)
	case t == nil:
		return refuse("the protocol has no such trial")
	case e.Count == 0 || e.First+e.Count < e.First || e.First+e.Count > t.spec.Samples:
		return refuse("the trial has samples 0 to %d", t.spec.Samples)
	case uint64(len(e.Result.Sums)) != (e.Count-1)/BlockSize+1:
		return refuse("it has %d sums: must have one for each block of %d samples", len(e.Result.Sums), BlockSize)
	}
	block := 0
	for _, count := range e.Unit.Blocks {
		if e.Result.Sums[block].Mean(count) > 1+1e-9 {
			return refuse("the sum of a block is above its number of samples")
		}
		block++
	}
	i := t.search(e.First)
	if i < len(t.entries) && t.entries[i].First == e.First && t.entries[i].Count == e.Count {
		if !slices.Equal(t.entries[i].Result.Sums, e.Result.Sums) {
			return refuse(
				"the ledger has another result for it: one of the two was not computed from the protocol",
			)
		}
		return false, nil
	}
	if i < len(t.entries) && t.entries[i].First < e.First+e.Count ||
		i > 0 && t.entries[i-1].First+t.entries[i-1].Count > e.First {
		return refuse("it overlaps a finished unit")
	}
	t.entries = slices.Insert(t.entries, i, e)
	t.done += e.Count
	return true, nil
}

// remove takes out an entry that add took.
func (b *contents) remove(e entry) {
	t := b.trials[[2]int{e.Candidate, e.Trial}]
	i := t.search(e.First)
	t.entries = slices.Delete(t.entries, i, i+1)
	t.done -= e.Count
}

// units yields the finished units with their results: see [Ledger.Units].
func (b *contents) units(yield func(Unit, Result) bool) {
	for c, candidate := range b.protocol.Candidates {
		for i := range candidate.Trials {
			for _, e := range b.trials[[2]int{c, i}].entries {
				if !yield(e.Unit, e.Result) {
					return
				}
			}
		}
	}
}

// search returns the index of the first entry that starts at or after a sample.
func (t *trial) search(first uint64) int {
	i, _ := slices.BinarySearchFunc(
		t.entries,
		first,
		func(e entry, first uint64) int { return cmp.Compare(e.First, first) },
	)
	return i
}
