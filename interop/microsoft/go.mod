module transom/interop/microsoft

go 1.26.8

tool (
	github.com/Microsoft/windows-container-networking/plugins/nat
	github.com/Microsoft/windows-container-networking/plugins/sdnbridge
	github.com/Microsoft/windows-container-networking/plugins/sdnoverlay
)

require (
	github.com/Microsoft/go-winio v0.5.2 // indirect
	github.com/Microsoft/hcsshim v0.8.26 // indirect
	github.com/Microsoft/windows-container-networking v0.3.1 // indirect
	github.com/containerd/cgroups v1.0.3 // indirect
	github.com/containernetworking/cni v1.1.2 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/groupcache v0.0.0-20200121045136-8c9f03a8e57e // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/sirupsen/logrus v1.8.1 // indirect
	go.opencensus.io v0.23.0 // indirect
	golang.org/x/sys v0.6.0 // indirect
)
