package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// golden is one line of testdata/decode.jsonl: an input and what Kubernetes makes of it. Only type and input are
// written by hand; `gen-types goldens FILE` fills in the rest.
type golden struct {
	Type  string `json:"type"`
	Input string `json:"input"`
	// Bytes replaces Input where the bytes are not valid UTF-8.
	Bytes   []byte   `json:"bytes,omitempty"`
	Error   string   `json:"error,omitempty"`
	Strict  []string `json:"strict,omitempty"`
	Printed string   `json:"printed,omitempty"`
	Proto   string   `json:"proto,omitempty"`
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func goldens(in, out string) {
	byName := map[string]reflect.Type{}
	for _, root := range roots() {
		byName[modelName(root.goType)] = root.goType
	}
	source, err := os.ReadFile(in)
	if err != nil {
		panic(err)
	}
	var result bytes.Buffer
	encoder := json.NewEncoder(&result)
	encoder.SetEscapeHTML(false)
	lines := bufio.NewScanner(bytes.NewReader(source))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			panic(err)
		}
		g.Error, g.Strict, g.Printed, g.Proto = "", nil, "", ""
		if g.Type == "quantity" {
			q, err := resource.ParseQuantity(g.Input)
			if err != nil {
				g.Error = err.Error()
			} else {
				g.Printed = q.String()
			}
		} else {
			g.judge(byName[g.Type])
		}
		if err := encoder.Encode(g); err != nil {
			panic(err)
		}
	}
	if err := os.WriteFile(out, result.Bytes(), 0o644); err != nil {
		panic(err)
	}
}

// judge decodes the input, passes it through protobuf as the storage does, and prints it again.
func (g *golden) judge(t reflect.Type) {
	if t == nil {
		panic("unknown type " + g.Type)
	}
	data := []byte(g.Input)
	if g.Bytes != nil {
		data = g.Bytes
	}
	object := reflect.New(t)
	strict, err := kjson.UnmarshalStrict(data, object.Interface())
	if err != nil {
		g.Error = err.Error()
		return
	}
	for _, s := range strict {
		g.Strict = append(g.Strict, s.Error())
	}
	if m, ok := object.Interface().(message); ok {
		wire, err := m.Marshal()
		if err != nil {
			panic(err)
		}
		fresh := reflect.New(t)
		if err := fresh.Interface().(message).Unmarshal(wire); err != nil {
			panic(err)
		}
		if wire, err = fresh.Interface().(message).Marshal(); err != nil {
			panic(err)
		}
		g.Proto = base64.StdEncoding.EncodeToString(wire)
		if o, ok := object.Interface().(runtime.Object); ok {
			gvk := o.GetObjectKind().GroupVersionKind()
			fresh.Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(gvk)
		}
		object = fresh
	}
	printed, err := json.Marshal(object.Interface())
	if err != nil {
		panic(err)
	}
	g.Printed = string(printed)
}
