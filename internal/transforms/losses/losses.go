// Package losses draws the samples of a verification on any Beam runner: work units in, sums of
// integers out.
//
// # Behavior
//
// A unit is a range of samples of one trial of an [accounting.Protocol]. A worker prepares the
// tables of the trial once, from the protocol alone, and computes each unit on all of its
// processors. The output is one encoded [ledger.Entry] for each unit: the unit and its integers. With
// [Config.Dir] a worker also writes it to a file in that folder as soon as the unit is finished.
// So a pipeline that is killed loses only the units in flight; [Collect] moves the files into a
// ledger.
//
// # Determinism
//
// For one kernel id, the result of a unit depends on the protocol and the unit alone; a worker with
// another kernel fails. The sum of all results has the same bits however the samples are divided
// into units, and for any order, retry and number of workers.
//
// Nothing here is secret: verification uses public randomness.
package losses

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/internal/transforms/progress"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[sumFn]())
	register.Emitter1[[]byte]()
}

// Config are the parameters of the computation. It travels in the pipeline graph.
type Config struct {
	Protocol string // as accounting.Protocol.Encode writes it
	Dir      string // a folder that every worker and the launcher share, where finished units are left; "" for none
}

// Sum computes units, a PCollection<[]byte> of JSON [ledger.Unit], on the workers. It returns a
// PCollection<[]byte> of JSON [ledger.Entry], one for each unit.
func Sum(s beam.Scope, c Config, units beam.PCollection) (beam.PCollection, error) {
	s = s.Scope("losses.Sum")
	if _, err := accounting.ParseProtocol([]byte(c.Protocol)); err != nil {
		return beam.PCollection{}, err
	}
	return beam.ParDo(s, &sumFn{Config: c}, beam.Reshuffle(s, units)), nil
}

// Create makes a PCollection<[]byte> of units, at least one, for [Sum].
func Create(s beam.Scope, units []ledger.Unit) (beam.PCollection, error) {
	encoded := make([][]byte, len(units))
	for i, u := range units {
		var err error
		if encoded[i], err = json.Marshal(u); err != nil {
			return beam.PCollection{}, err
		}
	}
	return beam.CreateList(s, encoded), nil
}

// SamplesDrawn is the name of the counter of samples.
const SamplesDrawn = "samples"

var samplesDrawn = progress.New(SamplesDrawn)

// sumFn computes units.
type sumFn struct {
	Config Config

	protocol *accounting.Protocol
	hash     string
}

func (f *sumFn) Setup() (err error) {
	if f.protocol, err = accounting.ParseProtocol([]byte(f.Config.Protocol)); err != nil {
		return err
	}
	f.hash, err = f.protocol.SHA256()
	return err
}

func (f *sumFn) ProcessElement(ctx context.Context, unit []byte, emit func([]byte)) error {
	done := ledger.Entry{}
	if err := strictjson.Unmarshal(unit, &done.Unit); err != nil {
		return err
	}
	worker, err := f.worker(done.Unit)
	if err != nil {
		return err
	}
	f.enter(done.Unit)
	if done.Result, err = f.draw(ctx, worker, done.Unit); err != nil {
		return err
	}
	b, err := json.Marshal(done)
	if err != nil {
		return err
	}
	if f.Config.Dir != "" {
		if err := leave(f.Config.Dir, done.Unit, b); err != nil {
			return err
		}
	}
	emit(b)
	return nil
}

// toldEvery is the time between updates of the counter of samples. firstPiece is the number of
// samples that a worker draws before it knows how long they take.
const (
	toldEvery  = 500 * time.Millisecond
	firstPiece = 4096
)

// draw computes a unit piece by piece, to count samples as it goes. Pieces are whole blocks, but for
// the last, and do not change the sums.
func (f *sumFn) draw(
	ctx context.Context,
	worker *calibration.Worker,
	u ledger.Unit,
) (all ledger.Result, err error) {
	for done, piece := uint64(0), uint64(firstPiece); done < u.Count; {
		count := min(piece, u.Count-done)
		begin := time.Now()
		r, err := worker.Run(ctx, u.First+done, count, 0)
		if err != nil {
			return all, err
		}
		all.Sums = append(all.Sums, r.Sums...)
		done += count
		samplesDrawn.Add(ctx, int(count))
		switch took := time.Since(begin); {
		case took < toldEvery/2:
			piece = 2 * count
		case took > 2*toldEvery:
			piece = max(firstPiece, count/2/ledger.BlockSize*ledger.BlockSize)
		}
	}
	return all, nil
}

// enter shows which candidate and direction is being verified, to users of this process.
func (f *sumFn) enter(u ledger.Unit) {
	of := len(f.protocol.Candidates)
	direction := "H(P,Q)"
	if f.protocol.Candidates[u.Candidate].Trials[u.Trial].Direction == montecarlo.Q {
		direction = "H(Q,P)"
	}
	progress.Enter(
		fmt.Sprintf("verifying candidate %d of %d, direction %s", of-u.Candidate, of, direction),
		"",
		0,
		0,
	)
}

// worker returns the worker for the trial of a unit. It refuses units of another protocol or
// kernel.
func (f *sumFn) worker(u ledger.Unit) (*calibration.Worker, error) {
	if u.Configuration != f.hash || u.KernelID != f.protocol.KernelID {
		return nil, fmt.Errorf("a unit of another protocol")
	}
	return workers.get(trial{f.hash, u.Candidate, u.Trial}, f.protocol)
}

// trial identifies a worker in the cache.
type trial struct {
	protocol         string
	candidate, trial int
}

// cache holds the workers of the trials in progress in this process: their tables are large.
type cache struct {
	sync.Mutex
	made map[trial]*entry
}

type entry struct {
	once   sync.Once
	worker *calibration.Worker
	err    error
}

var workers = cache{made: map[trial]*entry{}}

func (c *cache) get(t trial, p *accounting.Protocol) (*calibration.Worker, error) {
	c.Lock()
	e := c.made[t]
	if e == nil {
		for old := range c.made { // candidates are verified one after another, so older ones are done
			if old.protocol != t.protocol || old.candidate != t.candidate {
				delete(c.made, old)
			}
		}
		e = new(entry)
		c.made[t] = e
	}
	c.Unlock()
	e.once.Do(func() {
		progress.Enter("computing tables", "", 0, 0)
		e.worker, e.err = calibration.NewWorker(p, t.candidate, t.trial)
	})
	return e.worker, e.err
}

// unitPrefix begins the file names of finished units.
const unitPrefix = "unit-"

// leave writes a finished unit to a file. A unit that is computed twice leaves one file.
func leave(dir string, u ledger.Unit, done []byte) error {
	name := fmt.Sprintf("%s%d-%d-%d-%d.json", unitPrefix, u.Candidate, u.Trial, u.First, u.Count)
	return store.WriteFile(context.Background(), store.Join(dir, name), store.Options{Mode: manifest.PublicFile}, done)
}

// maxUnit bounds the file of a finished unit, in bytes.
const maxUnit = 1 << 20

// Collect adds the finished units in dir, all at once, to a ledger's AddAll for example, and removes
// their files. It may run while workers write more of them, and after a crash.
func Collect(ctx context.Context, dir string, add func([]ledger.Entry) error) error {
	entries, err := store.ListMade(ctx, dir)
	if err != nil {
		return err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name, unitPrefix) {
			paths = append(paths, store.Join(dir, e.Name))
		}
	}
	all := make([]ledger.Entry, len(paths))
	err = store.Parallel(len(paths), func(i int) error {
		b, err := store.ReadFile(ctx, paths[i], maxUnit)
		if err != nil {
			return err
		}
		if err := strictjson.Unmarshal(b, &all[i]); err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := add(all); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	// Another process may have collected a file already, which is no error.
	return store.Parallel(len(paths), func(i int) error { return store.RemoveAll(ctx, paths[i]) })
}
