package transforms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strconv"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/param"
	"minsep/internal/statistics"
	"minsep/privacy"
)

// Value is the value of an example in a column: a number, or for [privacy.Counts] a text.
type Value struct {
	Column string
	Number float64 // NaN for none
	Text   string
}

func init() {
	beam.RegisterType(reflect.TypeFor[Value]())
	beam.RegisterType(reflect.TypeFor[privacy.Statistics]())
	beam.RegisterCoder(reflect.TypeFor[privacy.Release](), encodeRelease, decodeRelease)
	register.Function2x2(memberOf)
	register.Function2x3(numberOf)
	register.Iter1[bool]()
	beam.RegisterDoFn(reflect.TypeFor[aggregateFn]())
	beam.RegisterDoFn(reflect.TypeFor[releaseFn]())
	register.Iter1[Value]()
	register.Emitter1[privacy.Release]()
}

func encodeRelease(r privacy.Release) ([]byte, error) { return json.Marshal(r) }

func decodeRelease(b []byte) (r privacy.Release, err error) { return r, json.Unmarshal(b, &r) }

// Statistics releases private statistics of the examples of a bounded table: values is a
// PCollection<KV<K, Value>> with K the type of the examples' ids, or string for texts of int64, at most
// one value of an example in each column, and the result a PCollection<privacy.Release> of one element.
// Values of examples that are not in the table count nowhere. The table is one that [ReadTable] reads, or
// that this pipeline writes with [Examples.Write] before.
//
// The release is in the folder statistics of the run directory before it is an element: a name is
// released once, and a bundle that is repeated emits what is there. Its claim adds to that of the
// training, see `minsep compose`.
func Statistics(
	ctx context.Context,
	s beam.Scope,
	ask privacy.Statistics,
	e Examples,
	values beam.PCollection,
) (beam.PCollection, error) {
	s = s.Scope("minsep.Statistics")
	none := beam.PCollection{}
	if e.training == nil || e.training.dir == "" { // a key is not needed
		return none, errNoTraining
	}
	if e.isNumbered() {
		return none, errors.New("statistics need a bounded table: make one with BoundContributions, or read it with ReadTable")
	}
	k, v, err := keyed("values", values)
	ofTexts := k == reflect.TypeFor[string]() && e.key == reflect.TypeFor[int64]()
	switch {
	case err != nil:
		return none, err
	case k != e.key && !ofTexts:
		return none, fmt.Errorf("values: ids are of type %v: must be %v, as those of the examples", k, e.key)
	case v != reflect.TypeFor[Value]():
		return none, fmt.Errorf("values: are of type %v: must be transforms.Value", v)
	}
	table, err := e.identity(s)
	if err != nil {
		return none, err
	}
	perOwner, err := e.perOwner()
	if err != nil {
		return none, err
	}
	if _, err := statistics.New(ask, perOwner); err != nil {
		return none, err
	}
	_, err = statistics.Read(ctx, e.training.dir, ask.Name)
	if !errors.Is(err, fs.ErrNotExist) {
		return none, errors.Join(err, &param.Error{Param: "name", Value: ask.Name,
			Rule: "is of statistics that are released already, which stay and count: give another one"})
	}
	rows, err := e.Rows(s)
	if err != nil {
		return none, err
	}
	if ofTexts {
		values = beam.ParDo(s, numberOf, values)
	}
	members := beam.ParDo(s, memberOf, rows)
	byExample := beam.CoGroupByKey(s, members, values)
	sums := beam.ParDo(s, &aggregateFn{Ask: ask, PerOwner: perOwner}, byExample)
	release := &releaseFn{Ask: ask, PerOwner: perOwner, Run: e.training.dir}
	return beam.ParDo(s, release, table, beam.SideInput{Input: sums}), nil
}

// perOwner is the number of examples that an owner has at most.
func (e Examples) perOwner() (int, error) {
	b := e.limits.bound()
	if e.table != nil {
		b = e.table.Bound
	}
	if err := b.Validate(); err != nil {
		return 0, err
	}
	return b.OwnerLimit(), nil
}

// numberOf makes a number of an id.
func numberOf(id string, v Value) (int64, Value, error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		err = errors.New("input: an id of the values is no integer, as those of the table are")
	}
	return n, v, err
}

// memberOf says that an example is in the table.
func memberOf(id beam.X, _ beam.Y) (beam.X, bool) { return id, true }

// aggregateFn adds the values of a bundle's examples up.
type aggregateFn struct {
	Ask      privacy.Statistics
	PerOwner int

	sums *statistics.Aggregates
}

func (f *aggregateFn) StartBundle(func([]byte)) (err error) {
	f.sums, err = statistics.New(f.Ask, f.PerOwner)
	return err
}

func (f *aggregateFn) ProcessElement(
	_ beam.X,
	members func(*bool) bool,
	values func(*Value) bool,
	_ func([]byte),
) error {
	of := map[string]Value{}
	var v Value
	for values(&v) {
		if _, twice := of[v.Column]; twice {
			return fmt.Errorf("input: two values of an example in column %q: there must be at most one", v.Column)
		}
		of[v.Column] = v
	}
	var member bool
	if !members(&member) {
		return nil
	}
	for column, v := range of {
		if err := f.sums.Add(column, v.Number, v.Text); err != nil {
			return err
		}
	}
	return nil
}

func (f *aggregateFn) FinishBundle(emit func([]byte)) error {
	b, err := f.sums.Encode()
	emit(b)
	return err
}

// releaseFn adds the sums of all bundles up, of which there may be none, and noise, and publishes the
// release with the name of the table.
type releaseFn struct {
	Ask      privacy.Statistics
	PerOwner int
	Run      string
}

func (f *releaseFn) ProcessElement(
	ctx context.Context,
	table string,
	sums func(*[]byte) bool,
	emit func(privacy.Release),
) error {
	all, err := statistics.New(f.Ask, f.PerOwner)
	if err != nil {
		return err
	}
	for b := []byte(nil); sums(&b); b = nil {
		if err := all.Merge(b); err != nil {
			return err
		}
	}
	r, err := all.Release(ctx, f.Run, table)
	if err == nil {
		emit(r)
	}
	return err
}
