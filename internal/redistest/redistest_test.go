package redistest_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/redistest"
)

func TestServer_keepsWhatItHasWhenKilled(t *testing.T) {
	server := redistest.Start(t, "--appendfsync", "always")
	client := server.Client()
	require.NoError(t, client.Set(t.Context(), "a", "1", 0).Err())
	server.Kill()
	require.Error(t, client.Get(t.Context(), "a").Err())
	server.Restart()
	require.Equal(t, "1", client.Get(t.Context(), "a").Val())
}

func TestServer_isSilentWhilePaused(t *testing.T) {
	server := redistest.Start(t)
	server.Pause()
	conn, err := net.Dial("tcp", server.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	server.Resume()
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
}

func TestStartTLS_speaksTLSOnly(t *testing.T) {
	server, _ := redistest.StartTLS(t)
	require.Equal(t, "PONG", server.Client().Ping(t.Context()).Val())
	conn, err := net.Dial("tcp", server.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	n, _ := conn.Read(make([]byte, 16))
	require.Zero(t, n)
}

func TestCluster_hasEverySlot(t *testing.T) {
	nodes := redistest.Cluster(t)
	require.Len(t, nodes, 3)
	for _, node := range nodes {
		_, port, err := net.SplitHostPort(node.Addr)
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Less(t, n, 65536-10000)
		info, err := node.Client().ClusterInfo(t.Context()).Result()
		require.NoError(t, err)
		require.Contains(t, info, "cluster_slots_assigned:16384")
	}
}
