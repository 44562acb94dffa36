//! Builders that are awaited.

use std::future::Future;
use std::pin::Pin;

/// A future of a builder.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Lets `builder.await` do what `builder.go().await` does.
macro_rules! awaitable {
    ($builder:ident => $output:ty) => {
        $crate::awaitable::awaitable!(@ [] 'static, $builder => $output);
    };
    ($builder:ident<$life:lifetime> => $output:ty) => {
        $crate::awaitable::awaitable!(@ [$life] $life, $builder<$life> => $output);
    };
    (@ [$($life:lifetime)?] $bound:lifetime, $builder:ty => $output:ty) => {
        impl$(<$life>)? std::future::IntoFuture for $builder {
            type Output = $output;
            type IntoFuture = $crate::awaitable::BoxFuture<$bound, $output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.go())
            }
        }
    };
}

pub(crate) use awaitable;
