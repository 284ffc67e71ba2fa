package ownergraph

import (
	"testing"

	"minsep/internal/stream"
)

func TestIDsHoldWhatWasAppended(t *testing.T) {
	var ints, text IDs
	text.Reset(String)
	for _, v := range []int64{5, -7, 0} {
		ints.AppendInt(v)
	}
	for _, v := range []string{"b", "", "ba", "\x00"} {
		text.AppendBytes([]byte(v))
	}
	if ints.Len() != 3 || ints.Format(1) != "-7" || ints.Compare(1, &ints, 0) >= 0 {
		t.Errorf("integers: %+v", ints)
	}
	if text.Len() != 4 || text.Format(2) != "ba" || text.Format(1) != "" || text.Compare(0, &text, 2) >= 0 || text.Compare(3, &text, 1) <= 0 {
		t.Errorf("strings: %+v", text)
	}
	var copied IDs
	copied.Reset(String)
	copied.AppendFrom(&text, 2)
	if copied.Format(0) != "ba" {
		t.Errorf("copied %q", copied.Format(0))
	}
	root := stream.NewRoot()
	src := stream.NewSource(root.Key(stream.RunID{}, [32]byte{}, "x"))
	if text.Address(src, 2, 1) != src.BytesAddress([]byte("ba"), 1) || ints.Address(src, 1, 0) != src.IntAddress(-7, 0) {
		t.Error("addresses differ from the stream's")
	}
}

func TestIDTypeText(t *testing.T) {
	for _, want := range []IDType{Int64, String} {
		b, _ := want.MarshalText()
		var got IDType
		if err := got.UnmarshalText(b); err != nil || got != want {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
	}
	var got IDType
	if got.UnmarshalText([]byte("float")) == nil {
		t.Error("float was taken for an id type")
	}
}
