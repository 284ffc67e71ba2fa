package stages

import (
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
	Sampler             sampling.Spec   `json:"sampler"`                // how examples take part
	Strategy            manifest.Digest `json:"strategy_sha256"`        // of its JSON, unless it is made from Bands
	Bands               int             `json:"bands,omitempty"`        // of the strategy that is made; 0 for a file
	MaxExamplesPerOwner int             `json:"max_examples_per_owner"` // k_u, at least 1
	Examples            int64           `json:"examples,omitempty"`     // copies counted; 0 where they do not matter
	PlanPrivacy                         // with its Unit always given
}

// request returns the request of a problem.
func (a Account) request(p calibration.Problem) (r Request, err error) {
	r = Request{
		Sampler:             p.Run.Sampler,
		Bands:               a.Bands,
		MaxExamplesPerOwner: p.Run.MaxExamplesPerOwner,
		Examples:            p.Run.Examples,
		PlanPrivacy:         a.PlanPrivacy,
	}
	r.Unit = string(p.Unit)
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
