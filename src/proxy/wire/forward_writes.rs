//! For connections that only look at what is read: they pass writes unchanged to the connection below.

/// Writes the methods of `AsyncWrite` that forward to the field of this name.
macro_rules! forward_writes {
    ($below:ident) => {
        fn poll_write(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            bytes: &[u8],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            ::std::pin::Pin::new(&mut self.$below).poll_write(cx, bytes)
        }

        fn poll_write_vectored(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            slices: &[::std::io::IoSlice<'_>],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            ::std::pin::Pin::new(&mut self.$below).poll_write_vectored(cx, slices)
        }

        fn is_write_vectored(&self) -> bool {
            self.$below.is_write_vectored()
        }

        fn poll_flush(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::pin::Pin::new(&mut self.$below).poll_flush(cx)
        }

        fn poll_shutdown(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::pin::Pin::new(&mut self.$below).poll_shutdown(cx)
        }
    };
}

pub(crate) use forward_writes;
