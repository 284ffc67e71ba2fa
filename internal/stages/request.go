package stages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/mechanism"
	"minsep/sampling"
)

// Request is the request of an account. A stopped account goes on with the protocol of its ledger
// if the request is the same. It must not plan again: another machine may estimate differently in
// the last digits, and so choose other candidates.
type Request struct {
	Sampler             sampling.Spec   `json:"sampler"`                    // how examples take part
	Strategy            manifest.Digest `json:"strategy_sha256"`            // of its JSON, unless it is made from Bands
	Bands               int             `json:"bands,omitempty"`            // of the strategy that is made; 0 for a file
	MaxExamplesPerOwner int             `json:"max_examples_per_owner"`     // k_u, at least 1
	Unit                accounting.Unit `json:"unit"`                       // whom the claim protects
	Examples            int64           `json:"examples,omitempty"`         // copies counted; 0 where they do not matter
	Epsilon             float64         `json:"epsilon"`                    // at least 0
	Delta               float64         `json:"delta"`                      // at least 1e-300, below 1
	NoiseMultiplier     float64         `json:"noise_multiplier,omitempty"` // the only one; 0 for the smallest
	Samples             uint64          `json:"samples,omitempty"`          // 0 for none given
	CPUTime             string          `json:"cpu_time,omitempty"`         // as Go writes a duration; "" for none given
	AlsoEpsilon         []float64       `json:"also_epsilon,omitempty"`     // further ε
}

// request returns the request of a problem.
func (a Account) request(p calibration.Problem) (r Request, err error) {
	r = Request{
		Sampler:             p.Run.Sampler,
		Bands:               a.Bands,
		MaxExamplesPerOwner: p.Run.MaxExamplesPerOwner,
		Unit:                p.Unit,
		Examples:            p.Run.Examples,
		Epsilon:             p.Epsilon,
		Delta:               p.Delta,
		NoiseMultiplier:     p.NoiseMultiplier,
		Samples:             p.Samples,
		AlsoEpsilon:         p.AlsoEpsilon,
	}
	if p.CPUTime > 0 {
		r.CPUTime = p.CPUTime.String()
	}
	if a.Bands == 0 {
		r.Strategy, err = digestOf(p.Run.Strategy)
	}
	return r, err
}

// Encode returns the contents of the request's file.
func (r Request) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// differs says how the request in the ledger of a folder differs from r, value by value: white space,
// which an editor may change, is no difference. now tells in a message where r is from.
func (r Request) differs(ctx context.Context, folder, now string) ([]string, error) {
	got, err := ReadFile(ctx, store.Join(folder, manifest.RequestFile))
	if err != nil {
		return nil, err
	}
	want, err := r.Encode()
	if err != nil {
		return nil, err
	}
	return JSONDifferences(got, want, now), nil
}

// AskedOtherwise says in a part of a sentence how a request differs from the one of the ledger in a
// folder. It returns "" if that cannot be known.
func AskedOtherwise(ctx context.Context, folder string, r Request) string {
	differs, err := r.differs(ctx, folder, "asked for now")
	switch {
	case err != nil:
		return ""
	case differs == nil:
		return " is of this same request"
	}
	return " is of another request (" + strings.Join(differs, "; ") + ")"
}

// Unfinished reports whether the ledger in a folder has a protocol, and how its request differs from
// r. It is for a run directory without a certificate: an account goes on with a protocol of the same
// request, and sets any other aside.
func (r Request) Unfinished(ctx context.Context, folder string) (there bool, differs []string, err error) {
	_, err = store.Stat(ctx, store.Join(folder, ledger.ProtocolFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	differs, err = r.differs(ctx, folder, "in the plan")
	if errors.Is(err, fs.ErrNotExist) {
		return true, []string{manifest.RequestFile + " is missing"}, nil
	}
	return true, differs, err
}

// RequestAgrees reports whether the request in the ledger of a folder asks for the claim of c: for
// its run, its points, and the noise multiplier if it names one. A budget is not part of a claim.
// Without a maximum batch size, neither is the number of examples, so that a certificate that is
// taken over may be for more of them, and may bring further points. Early ledgers and copies of
// certificates may have no request, which is not a fault.
func RequestAgrees(ctx context.Context, folder string, c *accounting.Certificate) bool {
	text, err := ReadFile(ctx, store.Join(folder, manifest.RequestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	var r Request
	return err == nil && json.Unmarshal(text, &r) == nil && r.agrees(c)
}

// agrees does the comparison of RequestAgrees.
func (r Request) agrees(c *accounting.Certificate) bool {
	asked, err := json.Marshal(r.Sampler)
	if err != nil {
		return false
	}
	certified, err := json.Marshal(c.Run.Sampler)
	if err != nil || !bytes.Equal(asked, certified) || !r.madeBy(c.Run.Strategy) {
		return false
	}
	for _, p := range c.Points {
		if r.AlsoEpsilon != nil && p.Epsilon != r.Epsilon && !slices.Contains(r.AlsoEpsilon, p.Epsilon) {
			return false
		}
	}
	sameExamples := r.Sampler.Truncation == nil || r.Examples == c.Run.Examples
	return r.MaxExamplesPerOwner == c.Run.MaxExamplesPerOwner && r.Unit == c.Unit && sameExamples &&
		r.Epsilon == c.Epsilon &&
		r.Delta == c.Delta &&
		(r.NoiseMultiplier == 0 || r.NoiseMultiplier == c.NoiseMultiplier)
}

// madeBy reports whether s is the strategy that was asked for.
func (r Request) madeBy(s *mechanism.Strategy) bool {
	if s == nil {
		return false
	}
	if r.Bands > 0 {
		return r.Strategy == manifest.Digest{} && s.Bands() == r.Bands
	}
	digest, err := digestOf(s)
	return err == nil && digest == r.Strategy
}

// digestOf returns the SHA-256 of a strategy's JSON.
func digestOf(s *mechanism.Strategy) (manifest.Digest, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return manifest.Digest{}, err
	}
	return sha256.Sum256(b), nil
}

// Earlier lists the protocols with samples in and beside the ledger in a folder, whatever they are
// for. It also lists the protocols that one of these counts, even if they are no longer there: they
// were seen before the next protocol is fixed. If many are tried until one is accepted, each may be
// accepted in error.
func Earlier(ctx context.Context, folder string) (list []accounting.Earlier, err error) {
	replaced, err := store.List(ctx, store.Join(folder, manifest.EarlierFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var dirs []string
	for _, e := range replaced {
		dirs = append(dirs, store.Join(folder, manifest.EarlierFolder, e.Name))
	}
	for _, dir := range append(dirs, folder) {
		l, err := ledger.Read(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if l.Protocol().KernelID == "" {
			continue
		}
		for _, e := range append(slices.Clone(l.Protocol().Earlier), l.Spent()) {
			same := func(other accounting.Earlier) bool { return other.ProtocolSHA256 == e.ProtocolSHA256 }
			if i := slices.IndexFunc(list, same); i < 0 {
				list = append(list, e)
			} else {
				list[i].FailureProbability = max(list[i].FailureProbability, e.FailureProbability)
			}
		}
	}
	return list, nil
}
