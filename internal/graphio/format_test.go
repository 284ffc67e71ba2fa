package graphio

import "testing"

// TestFormatsAreWhole: a format has all that a source and its splits ask of it, and names of its
// own.
func TestFormatsAreWhole(t *testing.T) {
	owned := map[string]string{}
	for _, f := range formats {
		if f.title == "" || len(f.extensions) == 0 || f.look == nil || (f.magic == nil) != (f.magicRule == "") {
			t.Errorf("format %s lacks a title, extensions, a look or a rule for its beginning", f.name)
		}
		for _, name := range append([]string{f.name}, append(f.extensions, f.magic...)...) {
			if other := owned[name]; other != "" {
				t.Errorf("%q is of the formats %s and %s", name, other, f.name)
			}
			owned[name] = f.name
		}
		if formatNamed(f.name) != f {
			t.Errorf("there are two formats %s", f.name)
		}
		for _, extension := range f.extensions {
			if got, compression := byName("graph" + extension); got != f || compression != "" {
				t.Errorf("the name graph%s tells %v, %q", extension, got, compression)
			}
		}
		if got, compression := byName("graph" + f.extensions[0] + ".GZ"); got != f || compression != "gzip" {
			t.Errorf("the name graph%s.GZ tells %v, %q", f.extensions[0], got, compression)
		}
	}
}
