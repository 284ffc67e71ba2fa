package digest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"minsep/internal/digest"
)

func TestSHA256(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	d, err := digest.Of(strings.NewReader("abc"))
	if err != nil || d.String() != abc {
		t.Fatalf("%v, %v", d, err)
	}
	b, err := json.Marshal(d)
	var read digest.SHA256
	if err != nil || string(b) != `"`+abc+`"` || json.Unmarshal(b, &read) != nil || read != d {
		t.Errorf("%s, %v, %v", b, err, read)
	}
	for _, bad := range []string{"", abc[1:], abc + "0", abc + "00", "g" + abc[1:]} {
		if err := read.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
