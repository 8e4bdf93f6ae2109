package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The schema has 29 types with 316 attributes of their own (MG 4.6, MG 4.7), and
// what 1.19 has not stands behind what it has.
func TestSchemaSize(t *testing.T) {
	attributes := 0
	for _, et := range Types() {
		behind := false
		for _, a := range et.Attributes {
			switch {
			case a.New:
				behind = true
			case behind:
				t.Errorf("%s.%s stands behind a new attribute", et.Name, a.Name)
			default:
				attributes++
			}
		}
	}
	if len(Types()) != 29 || attributes != 316 {
		t.Errorf("schema has %d types and %d attributes, want 29 and 316", len(Types()), attributes)
	}
}

// What must hold of each type and attribute.
func TestSchemaIsSound(t *testing.T) {
	for _, et := range Types() {
		name := et.Name
		if et.Description == "" {
			t.Errorf("%s has no description", name)
		}
		if et.Extends != "" && TypeByName(et.Extends) == nil {
			t.Errorf("%s extends %s, which does not exist", name, et.Extends)
		}
		if et.Section && et.Kind != KindConfiguration {
			t.Errorf("%s may stand in a file and is of kind %s", name, et.Kind)
		}
		if (et.HeldBy == HeldByCore || et.HeldBy == HeldByBoth) != (len(et.Columns) > 0) {
			t.Errorf("%s is held by %s and has %d columns", name, et.HeldBy, len(et.Columns))
		}
		seen := map[string]bool{}
		for _, a := range et.Attributes {
			if seen[a.Name] || a.DeprecationName != "" && seen[a.DeprecationName] {
				t.Errorf("%s.%s: the name is there twice", name, a.Name)
			}
			seen[a.Name], seen[a.DeprecationName] = true, true
			if a.Description == "" {
				t.Errorf("%s.%s has no description", name, a.Name)
			}
			if (a.Type == Enum) != (len(a.Enum) > 0) {
				t.Errorf("%s.%s has type %s and %d tags", name, a.Name, a.Type, len(a.Enum))
			}
			if a.Default != nil {
				if _, msg := coerce(&a, a.Default); msg != "" {
					t.Errorf("%s.%s: default %v: %s", name, a.Name, a.Default, msg)
				}
			}
		}
		for attr := range least[name] {
			if a := et.Attribute(attr); a == nil || a.Type != Integer {
				t.Errorf("least value of %s.%s, which is no integer attribute", name, attr)
			}
		}
	}
	for _, l := range later {
		if TypeByName(l.typeName) == nil {
			t.Errorf("unimplemented type %s does not exist", l.typeName)
		}
	}
}

// Operations and bases as GET-OPERATIONS and GET-TYPES report them (MG 4.6, MG 4.7).
func TestOperationsAndBases(t *testing.T) {
	tests := []struct{ name, operations, bases string }{
		{"sslProfile", "CREATE DELETE READ", "configurationEntity entity"},
		{"router.link", "UPDATE READ", "operationalEntity entity"},
		{"dummy", "CREATE READ UPDATE DELETE CALLME", "entity"},
		{"log", "UPDATE READ", "configurationEntity entity"},
		{"vhost", "CREATE UPDATE DELETE READ", "configurationEntity entity"},
		{"entity", "", ""},
		{"management", "GET-SCHEMA GET-JSON-SCHEMA GET-LOG PROFILE QUERY GET-TYPES GET-ANNOTATIONS GET-OPERATIONS GET-ATTRIBUTES GET-MGMT-NODES READ",
			"org.amqp.management operationalEntity entity"},
	}
	for _, tt := range tests {
		et := TypeByName(tt.name)
		if got := strings.Join(et.Operations, " "); got != tt.operations {
			t.Errorf("operations of %s = %s, want %s", tt.name, got, tt.operations)
		}
		if got := strings.ReplaceAll(strings.Join(et.Bases, " "), Prefix+".", ""); got != tt.bases {
			t.Errorf("bases of %s = %s, want %s", tt.name, got, tt.bases)
		}
	}
}

func TestTypeNames(t *testing.T) {
	tests := []struct{ name, long, short string }{
		{"listener", Prefix + ".listener", "listener"},
		{Prefix + ".listener", Prefix + ".listener", "listener"},
		{"router.config.address", Prefix + ".router.config.address", "address"},
		{"router.link", Prefix + ".router.link", "router.link"},
		{"address", "", ""}, // the agent does not expand it (MG 5)
		{"Listener", "", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		long, short := "", ""
		if et := TypeByName(tt.name); et != nil {
			long, short = et.LongName, et.ShortName()
		}
		if long != tt.long || short != tt.short {
			t.Errorf("TypeByName(%q) = %q, %q, want %q, %q", tt.name, long, short, tt.long, tt.short)
		}
	}
}

func TestAllAttributes(t *testing.T) {
	var names []string
	for _, a := range TypeByName("sslProfile").AllAttributes() {
		names = append(names, a.Name)
	}
	want := strings.Fields("ciphers protocols caCertFile certFile privateKeyFile passwordFile password uidFormat uidNameMappingFile name identity type")
	if !slices.Equal(names, want) {
		t.Errorf("attributes of sslProfile = %v, want %v", names, want)
	}
	if got := len(TypeByName("entity").AllAttributes()); got != 3 {
		t.Errorf("entity has %d attributes, want 3", got)
	}
}

func TestIs(t *testing.T) {
	tests := []struct {
		name, base string
		want       bool
	}{
		{"listener", "listener", true},
		{"listener", Prefix + ".configurationEntity", true},
		{"listener", "entity", true},
		{"listener", "operationalEntity", false},
		{"management", "org.amqp.management", true},
		{"entity", "listener", false},
	}
	for _, tt := range tests {
		if got := TypeByName(tt.name).Is(tt.base); got != tt.want {
			t.Errorf("%s.Is(%s) = %v, want %v", tt.name, tt.base, got, tt.want)
		}
	}
}

// The sections a file may have (CFG B15, B17).
func TestSections(t *testing.T) {
	var names []string
	for _, et := range Types() {
		if et.Section {
			names = append(names, et.ShortName())
			if typeBySection(et.ShortName()) != et {
				t.Errorf("section %s makes no %s", et.ShortName(), et.Name)
			}
		}
	}
	slices.Sort(names)
	want := strings.Fields("address authServicePlugin autoLink binding connector console exchange linkRoute listener log policy router sslProfile vhost")
	if !slices.Equal(names, want) {
		t.Errorf("sections = %v, want %v", names, want)
	}
	for _, name := range []string{"router.config.address", "connection", Prefix + ".listener", "dummy", "management", ""} {
		if et := typeBySection(name); et != nil {
			t.Errorf("section %q makes a %s, want nothing", name, et.Name)
		}
	}
}

func TestColumns(t *testing.T) {
	want := []Column{
		{Name: "name", Type: "string", Nullable: true},
		{Name: "identity", Type: "string"},
		{Name: "type", Type: "string"},
		{Name: "pattern", Type: "string"},
		{Name: "direction", Type: "string"},
		{Name: "containerId", Type: "string", Nullable: true},
	}
	if got := TypeByName("router.connection.linkRoute").Columns; !reflect.DeepEqual(got, want) {
		t.Errorf("columns of router.connection.linkRoute = %v, want %v", got, want)
	}
}
