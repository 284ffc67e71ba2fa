package contribution

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"sort"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ownergraph"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[sampleFn]()) }

// sampleFn counts the bytes of the edges, and takes the ids of a few examples, by which all are
// divided into buckets: the first one of each bundle and of every so many chunks. Neither the sample
// nor the number of buckets shows in the result. It emits bytes since the last emission, and an id if
// there is one.
type sampleFn struct {
	Config Config

	edges  ownergraph.Edges
	passed int // edges since the last id
	bytes  int // of edges since the last emission
}

// sampleEvery is the number of edges for which an id is taken: a bucket has some 60 of them.
const sampleEvery = 1 << 15

func (f *sampleFn) StartBundle(func([]byte)) { f.passed, f.bytes = sampleEvery, 0 }

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
	f.bytes += len(chunk)
	if f.passed += f.edges.Len(); f.passed >= sampleEvery {
		f.passed = 0
		emit(f.edges.Examples.AppendSortable(f.counted(), 0))
	}
	return nil
}

func (f *sampleFn) FinishBundle(emit func([]byte)) { emit(f.counted()) }

// counted encodes the bytes since the last emission.
func (f *sampleFn) counted() []byte {
	n := uint64(f.bytes)
	f.bytes = 0
	return binary.BigEndian.AppendUint64(nil, n)
}

// sample is what sampleFn emits of all edges.
type sample struct {
	bytes int64
	ids   [][]byte // in order
}

func readSample(records func(*[]byte) bool) (s sample) {
	for record := []byte(nil); records(&record); record = nil {
		s.bytes += int64(binary.BigEndian.Uint64(record))
		if id := record[8:]; len(id) > 0 {
			s.ids = append(s.ids, id)
		}
	}
	// The order of a side input differs from worker to worker, and the buckets must not.
	slices.SortFunc(s.ids, bytes.Compare)
	return s
}

// isSmall reports whether one worker bounds the graph. A graph without edges is none of its: it gets
// no element.
func (c Config) isSmall(s sample) bool { return s.bytes > 0 && s.bytes <= c.Small }

// splits returns the ids that divide the sample into n equal parts.
func (s sample) splits(n int) (out [][]byte) {
	for i := 1; i < n && len(s.ids) > 0; i++ {
		out = append(out, s.ids[i*len(s.ids)/n])
	}
	return slices.CompactFunc(out, bytes.Equal)
}

// bucketOf is the bucket of an encoded id.
func bucketOf(splits [][]byte, id []byte) uint32 {
	return uint32(sort.Search(len(splits), func(i int) bool { return bytes.Compare(splits[i], id) > 0 }))
}
