package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxYAMLNodes bounds what aliases may unfold to.
const maxYAMLNodes = 200_000

// readYAML reads the YAML format: a list of maps with one key, which is the name of
// a section, or one map from such names to a section or a list of sections.
func readYAML(text string) ([]*section, *syntaxError) {
	var doc, second yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(text))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, yamlError(err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, yamlError(err)
		}
		return nil, &syntaxError{line: second.Line, text: "a second document in the file"}
	}
	r := &yamlReader{}
	err := r.file(doc.Content[0])
	return r.sections, err
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlError takes the line number out of the text of the YAML parser.
func yamlError(err error) *syntaxError {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return &syntaxError{text: text}
	}
	line, _ := strconv.Atoi(m[1])
	return &syntaxError{line: line, text: strings.TrimPrefix(text, m[0])}
}

type yamlReader struct {
	nodes    int // visited so far, those behind aliases each time
	sections []*section
}

// enter counts a node and follows an alias.
func (r *yamlReader) enter(n *yaml.Node, depth int) (*yaml.Node, *syntaxError) {
	if r.nodes++; r.nodes > maxYAMLNodes {
		return nil, errUnfold(n)
	}
	if depth > maxNesting {
		return nil, &syntaxError{line: n.Line, text: fmt.Sprintf("more than %d levels of nesting", maxNesting)}
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, nil
}

func errUnfold(n *yaml.Node) *syntaxError {
	return &syntaxError{line: n.Line, text: "the aliases unfold to too much"}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (r *yamlReader) file(top *yaml.Node) *syntaxError {
	switch {
	case isNull(top):
		return nil
	case top.Kind == yaml.SequenceNode:
		for _, item := range top.Content {
			item, err := r.enter(item, 1)
			if err != nil {
				return err
			}
			if item.Kind != yaml.MappingNode || len(item.Content) != 2 {
				return &syntaxError{line: item.Line, text: "each item of the list must be a map with one key, the name of the section"}
			}
			if err := r.section(item.Content[0], item.Content[1], item.Line); err != nil {
				return err
			}
		}
		return nil
	case top.Kind == yaml.MappingNode:
		for i := 0; i < len(top.Content); i += 2 {
			name := top.Content[i]
			value, err := r.enter(top.Content[i+1], 1)
			if err != nil {
				return err
			}
			if value.Kind != yaml.SequenceNode {
				if err := r.section(name, value, name.Line); err != nil {
					return err
				}
				continue
			}
			for _, item := range value.Content {
				if err := r.section(name, item, item.Line); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return &syntaxError{line: top.Line, text: "the file must be a list or a map of sections"}
}

// pairs lists the keys and values of a map. What a merge key (<<) brings stands before the map's
// own, since of several the last one counts.
func (r *yamlReader) pairs(n *yaml.Node, depth int) (list []*yaml.Node, err *syntaxError) {
	var own []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() != "!!merge" {
			own = append(own, key, value)
			continue
		}
		if value, err = r.enter(value, depth); err != nil {
			return nil, err
		}
		from := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			from = value.Content
		}
		for _, m := range slices.Backward(from) { // the first one counts
			if m, err = r.enter(m, depth+1); err != nil {
				return nil, err
			}
			if m.Kind != yaml.MappingNode {
				return nil, &syntaxError{line: key.Line, text: "a merge key (<<) needs a map or a list of maps"}
			}
			more, err := r.pairs(m, depth+1)
			if err != nil {
				return nil, err
			}
			if r.nodes += len(more); r.nodes > maxYAMLNodes {
				return nil, errUnfold(key)
			}
			list = append(list, more...)
		}
	}
	return append(list, own...), nil
}

// section reads one section; a missing value is a section without attributes.
func (r *yamlReader) section(name, value *yaml.Node, line int) *syntaxError {
	value, err := r.enter(value, 2)
	if err != nil {
		return err
	}
	if name.Kind != yaml.ScalarNode {
		return &syntaxError{line: name.Line, text: "the name of a section must be text"}
	}
	s := &section{name: camelCase(name.Value), line: line}
	r.sections = append(r.sections, s)
	if isNull(value) {
		return nil
	}
	if value.Kind != yaml.MappingNode {
		return &syntaxError{line: value.Line, section: s.name, text: "a section must be a map from attributes to values"}
	}
	content, err := r.pairs(value, 3)
	if err != nil {
		return err
	}
	for i := 0; i < len(content); i += 2 {
		key := content[i]
		if key.Kind != yaml.ScalarNode {
			return &syntaxError{line: key.Line, section: s.name, text: "the name of an attribute must be text"}
		}
		v, err := r.enter(content[i+1], 3)
		if err != nil {
			return err
		}
		attr := camelCase(key.Value)
		switch {
		case isNull(v):
			s.add(attr, nil, key.Line)
		case v.Kind == yaml.ScalarNode:
			// As text, which the schema then gives a type: so "no" can be a boolean and a
			// value of stripAnnotations, and 010 stays as it was written.
			s.add(attr, v.Value, key.Line)
		default:
			native, err := r.native(v, 3)
			if err != nil {
				return err
			}
			s.add(attr, native, key.Line)
		}
	}
	return nil
}

// native converts what stands inside of a map or list.
func (r *yamlReader) native(n *yaml.Node, depth int) (any, *syntaxError) {
	n, err := r.enter(n, depth)
	if err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.MappingNode:
		content, err := r.pairs(n, depth)
		if err != nil {
			return nil, err
		}
		m := make(map[string]any, len(content)/2)
		for i := 0; i < len(content); i += 2 {
			key := content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, &syntaxError{line: key.Line, text: "a key must be text"}
			}
			v, err := r.native(content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			m[key.Value] = v
		}
		return m, nil
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := r.native(item, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, yamlError(err)
	}
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, nil
		}
	}
	return n.Value, nil // times, binary data, numbers JSON does not have: as written
}
