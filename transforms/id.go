package transforms

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// ID is a type of ids of examples or owners. Strings and bytes are at most 255 bytes long and count
// as the same ids; a uint64 counts as the int64 of the same bits.
type ID interface {
	int64 | uint64 | string | []byte
}

// columnType returns the column type of ids of type t.
func columnType(t reflect.Type) (ownergraph.IDType, bool) {
	switch t {
	case reflect.TypeFor[int64](), reflect.TypeFor[uint64]():
		return ownergraph.Int64, true
	case reflect.TypeFor[string]():
		return ownergraph.String, true
	case reflect.TypeFor[[]byte]():
		return ownergraph.Bytes, true
	}
	return 0, false
}

// goType returns the type of ids that are read from a column.
func goType(t ownergraph.IDType) reflect.Type {
	switch t {
	case ownergraph.String:
		return reflect.TypeFor[string]()
	case ownergraph.Bytes:
		return reflect.TypeFor[[]byte]()
	}
	return reflect.TypeFor[int64]()
}

// LongIDError is the refusal of an id that is too long. It does not name the id, which is secret.
type LongIDError struct {
	Bytes int // of the id, above 255
}

func (e *LongIDError) Error() string {
	return fmt.Sprintf(
		"input: an id of %d bytes: must have at most %d: give a hash of it",
		e.Bytes,
		stream.MaxStringID,
	)
}

// appendID appends an id to a column.
func appendID[K ID](c *ownergraph.IDs, id K) error {
	var text []byte
	switch v := any(id).(type) {
	case int64:
		c.AppendInt(v)
		return nil
	case uint64:
		c.AppendInt(int64(v))
		return nil
	case string:
		text = []byte(v)
	case []byte:
		text = v
	}
	if len(text) > stream.MaxStringID {
		return &LongIDError{len(text)}
	}
	c.AppendBytes(text)
	return nil
}

// appendIDs appends the first n ids of a column. Texts share memory.
func appendIDs[K ID](ids []K, c *ownergraph.IDs, n int) []K {
	switch to := any(&ids).(type) {
	case *[]int64:
		for i := range n {
			*to = append(*to, c.Int(i))
		}
	case *[]uint64:
		for i := range n {
			*to = append(*to, uint64(c.Int(i)))
		}
	case *[]string:
		text, ends := texts(c, n)
		last := 0
		for _, end := range ends {
			*to = append(*to, text[last:end])
			last = end
		}
	case *[][]byte:
		text, ends := texts(c, n)
		all, last := []byte(text), 0
		for _, end := range ends {
			*to = append(*to, all[last:end:end])
			last = end
		}
	}
	return ids
}

// texts returns the first n texts of a column, one after the other, and where each ends.
func texts(c *ownergraph.IDs, n int) (text string, ends []int) {
	size := 0
	for i := range n {
		size += len(c.Bytes(i))
	}
	var b strings.Builder
	b.Grow(size)
	ends = make([]int, 0, n)
	for i := range n {
		b.Write(c.Bytes(i))
		ends = append(ends, b.Len())
	}
	return b.String(), ends
}

// pairTypes returns the types of a PCollection<KV<K, V>> of ids.
func pairTypes(what string, c beam.PCollection) (k, v reflect.Type, err error) {
	if k, v, err = keyed(what, c); err != nil {
		return nil, nil, err
	}
	for _, t := range []reflect.Type{k, v} {
		if _, ok := columnType(t); !ok {
			return nil, nil, fmt.Errorf("%s: ids are of type %v: must be int64, uint64, string or []byte", what, t)
		}
	}
	return k, v, nil
}

// keyed returns the types of a bounded PCollection<KV<K, V>> in the global window.
func keyed(what string, c beam.PCollection) (k, v reflect.Type, err error) {
	if err := usable(what, c); err != nil {
		return nil, nil, err
	}
	t := c.Type()
	if t.Type() != typex.KVType {
		return nil, nil, fmt.Errorf("%s: elements are %v: must be KV<K, V>", what, t)
	}
	return t.Components()[0].Type(), t.Components()[1].Type(), nil
}

// usable refuses collections that are invalid, unbounded or windowed: batches are drawn of all
// examples, which an unbounded collection never has.
func usable(what string, c beam.PCollection) error {
	if !c.IsValid() {
		return fmt.Errorf("%s: is no PCollection", what)
	}
	if fn := c.WindowingStrategy().Fn; fn.Kind != window.GlobalWindows {
		return fmt.Errorf("%s: is in windows of %v: must be in the global window", what, fn.Kind)
	}
	if strings.HasSuffix(c.String(), ":unbounded}") { // Beam tells it nowhere else
		return fmt.Errorf("%s: is unbounded: must be bounded, since a batch is drawn of all examples", what)
	}
	return nil
}
