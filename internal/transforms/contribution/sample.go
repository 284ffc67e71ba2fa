package contribution

import (
	"bytes"
	"reflect"
	"slices"
	"sort"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ownergraph"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[sampleFn]()) }

// sampleFn emits the ids of a few examples, by which all are divided into buckets: the first one of
// each bundle and of every so many chunks. Neither the sample nor the number of buckets shows in the
// result.
type sampleFn struct {
	Config Config

	edges  ownergraph.Edges
	passed int // edges since the last
}

// sampleEvery is the number of edges for which an id is taken: a bucket has some 60 of them.
const sampleEvery = 1 << 15

func (f *sampleFn) StartBundle(func([]byte)) { f.passed = sampleEvery }

func (f *sampleFn) ProcessElement(chunk []byte, emit func([]byte)) error {
	if err := f.edges.UnmarshalBinary(chunk); err != nil {
		return err
	}
	if f.edges.Len() == 0 { // an empty chunk has no id types to compare
		return nil
	}
	if err := f.Config.checkTypes(&f.edges); err != nil {
		return err
	}
	if f.passed += f.edges.Len(); f.passed >= sampleEvery {
		f.passed = 0
		emit(f.edges.Examples.AppendSortable(nil, 0))
	}
	return nil
}

// splits returns the sampled ids that divide the sample into n equal parts. It sorts them first:
// the order of a side input differs from worker to worker, and the buckets must not.
func splits(sample func(*[]byte) bool, n int) [][]byte {
	var ids [][]byte
	for id := []byte(nil); sample(&id); id = nil {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, bytes.Compare)
	var out [][]byte
	for i := 1; i < n && len(ids) > 0; i++ {
		out = append(out, ids[i*len(ids)/n])
	}
	return slices.CompactFunc(out, bytes.Equal)
}

// bucketOf is the bucket of an encoded id.
func bucketOf(splits [][]byte, id []byte) uint32 {
	return uint32(sort.Search(len(splits), func(i int) bool { return bytes.Compare(splits[i], id) > 0 }))
}
