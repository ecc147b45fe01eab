# %% [markdown]
# # Fit data
#
# to come
